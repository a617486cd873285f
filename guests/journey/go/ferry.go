// Ferries, by day.
package main

import (
	"fmt"

	"styx"
)

var ferry = styx.NewOperator("ferry")

type leg struct {
	Free  int64 `json:"free"`
	Price int64 `json:"price"`
}

type booking struct {
	Seats  int64    `json:"seats"`
	Onward []string `json:"onward"`
}

var create = styx.Register(ferry, "create", func(ctx *styx.Context, in leg) (styx.None, error) {
	return styx.None{}, ctx.State.Put(in)
})

var book = styx.Register(ferry, "book", func(ctx *styx.Context, in booking) (int64, error) {
	var leg leg
	if found, err := ctx.State.Get(&leg); err != nil {
		return 0, err
	} else if !found {
		return 0, fmt.Errorf("no ferry sails on %s", ctx.Key())
	}
	if leg.Free < in.Seats {
		return 0, styx.Abort("FULL", "the ferry on %s is full", ctx.Key())
	}
	leg.Free -= in.Seats
	if err := ctx.State.Put(leg); err != nil {
		return 0, err
	}
	price := in.Seats * leg.Price
	if len(in.Onward) > 0 {
		more, err := styx.Call[int64](ctx, in.Onward[0], ctx.Key(), "book", in.Seats, in.Onward[1:])
		if err != nil {
			return 0, err
		}
		price += more
	}
	return price, nil
}, styx.Doc("Books seats here and on the legs after it: what all of them cost."))

func main() {}
