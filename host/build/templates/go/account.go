// Accounts, and money that goes from one to another.
package main

import (
	"errors"

	"styx"
)

// The key is the owner, the value the balance.
var account = styx.NewOperator("account")

// Deposit adds to the balance.
type Deposit struct {
	Amount int64 `json:"amount"`
}

var deposit = styx.Register(account, "deposit", func(ctx *styx.Context, in Deposit) (int64, error) {
	if in.Amount <= 0 {
		return 0, errors.New("an amount is positive") // aborts the whole transaction
	}
	balance, err := read(ctx)
	if err != nil {
		return 0, err
	}
	balance += in.Amount
	return balance, ctx.State.Put(balance)
})

// Transfer moves money to another account: both change, or neither.
type Transfer struct {
	To     string `json:"to"`
	Amount int64  `json:"amount"`
}

var transfer = styx.Register(account, "transfer", func(ctx *styx.Context, in Transfer) (int64, error) {
	if _, err := deposit.Call(ctx, in.To, Deposit{in.Amount}); err != nil {
		return 0, err
	}
	balance, err := read(ctx)
	if err != nil {
		return 0, err
	}
	balance -= in.Amount
	if balance < 0 {
		return 0, styx.Abort("INSUFFICIENT_FUNDS", "%s is short of %d", ctx.Key(), -balance)
	}
	return balance, ctx.State.Put(balance)
})

var balance = styx.Register(account, "balance", func(ctx *styx.Context, _ styx.None) (int64, error) {
	return read(ctx)
}, styx.ReadOnly())

func read(ctx *styx.Context) (balance int64, err error) {
	_, err = ctx.State.Get(&balance)
	return balance, err
}

func main() {}
