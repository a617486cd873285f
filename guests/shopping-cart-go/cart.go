// A shopping cart whose checkout is one transaction (Styx, Figure 3): stock of every item and credit of the user, or
// nothing of it.
//
// An order stays as it is when it was checked out and may be checked out again, so that a benchmark never runs out of
// orders before stock or credit does. The Rust guest of the same workload has the same names and gives the same replies.
package main

import (
	"encoding/json"
	"fmt"

	"styx"
)

func main() {}

// Page is a part of an operator's entities.
type Page struct {
	After *string `json:"after" doc:"the last key of the page before"`
	Limit uint32  `json:"limit" doc:"how many at most"`
}

// pageOf reads a page; and its last key, with which the next begins, if it is full.
func pageOf[T any](ctx *styx.Context, page Page) ([]styx.Entry[T], any, error) {
	within := styx.Range{Limit: page.Limit}
	if page.After != nil {
		within.After = *page.After
	}
	entries, err := styx.Scan[T](ctx, within)
	if err != nil || len(entries) == 0 || len(entries) < int(page.Limit) {
		return entries, nil, err
	}
	return entries, entries[len(entries)-1].Key, nil
}

var user = styx.NewOperator("user", styx.Doc("Customers and their credit, by user id."))

type credit struct {
	Credit int64 `json:"credit"`
}

var _ = styx.Register(user, "insert", func(ctx *styx.Context, in credit) (styx.None, error) {
	return styx.None{}, ctx.State.Put(in.Credit)
}, styx.Doc("Registers a customer, or sets the credit."))

type amount struct {
	Amount int64 `json:"amount"`
}

var pay = styx.Register(user, "pay", func(ctx *styx.Context, in amount) (none styx.None, err error) {
	var credit int64
	found, err := ctx.State.Get(&credit)
	switch {
	case err != nil:
		return none, err
	case !found:
		return none, fmt.Errorf("there is no user %s", ctx.Key())
	case credit < in.Amount:
		return none, fmt.Errorf("user %s has a credit of %d, but %d is due", ctx.Key(), credit, in.Amount)
	}
	return none, ctx.State.Put(credit - in.Amount)
}, styx.Doc("Takes from the credit; aborts if it would become negative."))

var _ = styx.Register(user, "audit", func(ctx *styx.Context, in Page) ([]any, error) {
	page, following, err := pageOf[int64](ctx, in)
	sum := int64(0)
	for _, each := range page {
		sum += each.Value
	}
	return []any{len(page), sum, following}, err
}, styx.ReadOnly(), styx.Doc("A page of all users: [users, sum of their credit, last key of the page or null]."))

var item = styx.NewOperator("item", styx.Doc("Items in stock, by item id."))

type shelf struct {
	Stock uint32 `json:"stock"`
	Price int64  `json:"price"`
}

var _ = styx.Register(item, "insert", func(ctx *styx.Context, in shelf) (styx.None, error) {
	return styx.None{}, ctx.State.Put(in)
}, styx.Doc("Sets how many there are and what one costs."))

type quantity struct {
	Quantity uint32 `json:"quantity"`
}

var take = styx.Register(item, "take", func(ctx *styx.Context, in quantity) (none styx.None, err error) {
	var shelf shelf
	found, err := ctx.State.Get(&shelf)
	switch {
	case err != nil:
		return none, err
	case !found:
		return none, fmt.Errorf("there is no item %s", ctx.Key())
	case shelf.Stock < in.Quantity:
		return none, fmt.Errorf("not enough of item %s", ctx.Key())
	}
	shelf.Stock -= in.Quantity
	return none, ctx.State.Put(shelf)
}, styx.Doc("Takes so many; aborts if there are not enough."))

var _ = styx.Register(item, "audit", func(ctx *styx.Context, in Page) ([]any, error) {
	page, following, err := pageOf[shelf](ctx, in)
	var pieces, value int64
	for _, each := range page {
		pieces += int64(each.Value.Stock)
		value += int64(each.Value.Stock) * each.Value.Price
	}
	return []any{len(page), pieces, value, following}, err
}, styx.ReadOnly(), styx.Doc("A page of all items: [items, pieces in stock, what all of them cost, last key of the page or null]."))

var order = styx.NewOperator("order", styx.Doc("Carts, by order id."))

// Line is an item in a cart: as JSON, [item, quantity, price of one].
type Line struct {
	Item     string
	Quantity uint32
	Price    int64
}

// MarshalJSON makes an array.
func (l Line) MarshalJSON() ([]byte, error) {
	return json.Marshal([]any{l.Item, l.Quantity, l.Price})
}

// UnmarshalJSON reads an array.
func (l *Line) UnmarshalJSON(data []byte) error {
	return json.Unmarshal(data, &[]any{&l.Item, &l.Quantity, &l.Price})
}

type cart struct {
	User      string `json:"user"`
	Lines     []Line `json:"lines"`
	Checkouts int64  `json:"checkouts"`
}

func (c *cart) total() (sum int64) {
	for _, line := range c.Lines {
		sum += int64(line.Quantity) * line.Price
	}
	return sum
}

func (c *cart) pieces() (sum int64) {
	for _, line := range c.Lines {
		sum += int64(line.Quantity)
	}
	return sum
}

type filling struct {
	User  string `json:"user"`
	Lines []Line `json:"lines"`
}

var _ = styx.Register(order, "insert", func(ctx *styx.Context, in filling) (styx.None, error) {
	return styx.None{}, ctx.State.Put(cart{User: in.User, Lines: in.Lines})
}, styx.Doc("Fills a cart for a user with lines [item, quantity, price of one]."))

var _ = styx.Register(order, "checkout", func(ctx *styx.Context, _ styx.None) (int64, error) {
	var cart cart
	found, err := ctx.State.Get(&cart)
	if err != nil {
		return 0, err
	}
	if !found {
		return 0, fmt.Errorf("there is no order %s", ctx.Key())
	}
	for _, line := range cart.Lines {
		if err := take.CallAsync(ctx, line.Item, quantity{line.Quantity}); err != nil {
			return 0, err
		}
	}
	total := cart.total()
	if err := pay.CallAsync(ctx, cart.User, amount{total}); err != nil {
		return 0, err
	}
	cart.Checkouts++
	return total, ctx.State.Put(&cart)
}, styx.Doc("Takes every item out of stock and has the user pay: returns the price, or aborts if anything would become negative."))

var _ = styx.Register(order, "audit", func(ctx *styx.Context, in Page) ([]any, error) {
	page, following, err := pageOf[cart](ctx, in)
	var checkouts, pieces, paid int64
	for _, each := range page {
		checkouts += each.Value.Checkouts
		pieces += each.Value.Checkouts * each.Value.pieces()
		paid += each.Value.Checkouts * each.Value.total()
	}
	return []any{len(page), checkouts, pieces, paid, following}, err
}, styx.ReadOnly(), styx.Doc("A page of all orders: [orders, checkouts, pieces that were bought, what was paid, last key of the page or null]."))
