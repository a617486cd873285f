// Package styx is for writing transactional stateful functions in Go.
//
// An operator is a kind of entity, a function runs for one entity at a time, and everything that a request touches,
// however many functions it calls, is one strictly serializable transaction. There are no locks, retries or
// compensations to write: return an error and nothing of it has happened.
//
//	package main
//
//	import (
//		"fmt"
//
//		"styx"
//	)
//
//	type Item struct {
//		Stock int `json:"stock"`
//		Price int `json:"price"`
//	}
//
//	type Take struct {
//		Quantity int `json:"quantity"`
//	}
//
//	var stock = styx.NewOperator("stock")
//
//	var take = styx.Register(stock, "take", func(ctx *styx.Context, in Take) (int, error) {
//		var item Item
//		if err := ctx.State.Require(&item); err != nil {
//			return 0, err
//		}
//		if item.Stock < in.Quantity {
//			return 0, fmt.Errorf("not enough %s", ctx.Key()) // aborts the whole transaction
//		}
//		item.Stock -= in.Quantity
//		return item.Price * in.Quantity, ctx.State.Put(item)
//	})
//
//	func main() {}
//
// # Determinism
//
// The same transaction must come to the same result wherever it runs. So the clock is the transaction's (time.Now, and
// [Context.Time]), random numbers are seeded from it (math/rand, crypto/rand, and [Context.Random]), the order of maps
// follows from them, and sleeping moves the clock without taking time. There are no files, sockets or environment.
// A package's variable that changes from call to call is a bug: instances are reused, and how often is nobody's promise.
// So is a goroutine that is left running when its function returns.
package styx

// Version is the version of the SDK.
const Version = "0.1.0"
