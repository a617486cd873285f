// YCSB-T (Styx, section 9.1): accounts, and transfers between two of them; and the records of its migrations, which are
// larger.
//
// The state of an account is its balance, a plain number. The Rust guest of the same workload has the same names and gives
// the same replies.
package main

import (
	"errors"
	"fmt"
	"math"
	"strings"

	"styx"
)

func main() {}

// Page is a part of an operator's entities.
type Page struct {
	After *string `json:"after" doc:"the last key of the page before"`
	Limit uint32  `json:"limit" doc:"how many at most"`
}

// pageOf reads a page of those that start with a prefix; and its last key, with which the next begins, if it is full.
func pageOf[T any](ctx *styx.Context, prefix string, page Page) ([]styx.Entry[T], any, error) {
	within := styx.Range{Prefix: prefix, Limit: page.Limit}
	if page.After != nil {
		within.After = *page.After
	}
	entries, err := styx.Scan[T](ctx, within)
	if err != nil || len(entries) == 0 || len(entries) < int(page.Limit) {
		return entries, nil, err
	}
	return entries, entries[len(entries)-1].Key, nil
}

var (
	account = styx.NewOperator("account", styx.Doc("Accounts with a balance."))
	member  = styx.NewOperator("member", styx.KeyPrefix("group"), styx.Doc("Accounts of a group."))
)

type balance struct {
	Balance int64 `json:"balance"`
}

type destination struct {
	To string `json:"to"`
}

func load(ctx *styx.Context) (balance int64, err error) {
	found, err := ctx.State.Get(&balance)
	if err == nil && !found {
		err = fmt.Errorf("there is no account %s", ctx.Key())
	}
	return balance, err
}

func insert(ctx *styx.Context, in balance) (styx.None, error) {
	return styx.None{}, ctx.State.Put(in.Balance)
}

func read(ctx *styx.Context, _ styx.None) (int64, error) { return load(ctx) }

func update(ctx *styx.Context, _ styx.None) (int64, error) {
	balance, err := load(ctx)
	if err != nil {
		return 0, err
	}
	if balance == math.MaxInt64 {
		return 0, fmt.Errorf("account %s is full", ctx.Key())
	}
	return balance + 1, ctx.State.Put(balance + 1)
}

func credit(ctx *styx.Context, in styx.None) (none styx.None, err error) {
	_, err = update(ctx, in)
	return none, err
}

// transfer is the function that takes one from the own account, and by `credit` adds it to another.
func transfer(credit func(ctx *styx.Context, key string) error) func(*styx.Context, destination) (int64, error) {
	return func(ctx *styx.Context, in destination) (int64, error) {
		if in.To == ctx.Key() {
			return 0, errors.New("a transfer needs two accounts")
		}
		balance, err := load(ctx)
		if err != nil {
			return 0, err
		}
		if err := credit(ctx, in.To); err != nil {
			return 0, err
		}
		if balance < 1 {
			return 0, fmt.Errorf("account %s has nothing left", ctx.Key())
		}
		return balance - 1, ctx.State.Put(balance - 1)
	}
}

// sum is the function that adds up a page of accounts whose keys start with a prefix.
func sum(prefix func(ctx *styx.Context) string) func(*styx.Context, Page) ([]any, error) {
	return func(ctx *styx.Context, in Page) ([]any, error) {
		page, following, err := pageOf[int64](ctx, prefix(ctx), in)
		sum := int64(0)
		for _, each := range page {
			sum += each.Value
		}
		return []any{len(page), sum, following}, err
	}
}

var (
	accountCredit = styx.Register(account, "credit", credit, styx.Doc("Adds one; the other half of a transfer."))
	memberCredit  = styx.Register(member, "credit", credit, styx.Doc("Adds one; the other half of a transfer."))
)

func creditAccount(ctx *styx.Context, key string) error {
	_, err := accountCredit.Call(ctx, key, styx.None{})
	return err
}

func creditAccountAsync(ctx *styx.Context, key string) error {
	return accountCredit.CallAsync(ctx, key, styx.None{})
}

func creditMember(ctx *styx.Context, key string) error {
	_, err := memberCredit.Call(ctx, key, styx.None{})
	return err
}

func all(*styx.Context) string { return "" }

func group(ctx *styx.Context) string {
	group, _, _ := strings.Cut(ctx.Key(), ":")
	return group + ":"
}

func init() {
	for _, operator := range []*styx.Operator{account, member} {
		styx.Register(operator, "insert", insert, styx.Doc("Opens the account, or sets its balance."))
		styx.Register(operator, "read", read, styx.ReadOnly(), styx.Doc("The balance."))
		styx.Register(operator, "update", update, styx.Doc("Adds one and returns the balance."))
	}
	styx.Register(account, "transfer", transfer(creditAccount),
		styx.Doc("Moves one to another account and returns the own balance; aborts if that would be negative."))
	styx.Register(account, "transfer_async", transfer(creditAccountAsync),
		styx.Doc("The same with an asynchronous call, which runs when this function has returned."))
	styx.Register(member, "transfer", transfer(creditMember),
		styx.Doc("Moves one to another member and returns the own balance; aborts if that would be negative."))
	styx.Register(account, "sum", sum(all), styx.ReadOnly(),
		styx.Doc("A page of all accounts: [accounts, sum of their balances, last key of the page or null]."))
	styx.Register(member, "sum", sum(group), styx.ReadOnly(),
		styx.Doc("A page of the group: [accounts, sum of their balances, last key of the page or null]."))
}

var record = styx.NewOperator("record", styx.Doc("Records of fields."))

type filling struct {
	Fields []string `json:"fields"`
}

var _ = styx.Register(record, "insert", func(ctx *styx.Context, in filling) (styx.None, error) {
	return styx.None{}, ctx.State.Put(in.Fields)
}, styx.Doc("Adds the record, or replaces it."))

func fieldsOf(ctx *styx.Context) (fields []string, err error) {
	found, err := ctx.State.Get(&fields)
	if err == nil && !found {
		err = fmt.Errorf("there is no record %s", ctx.Key())
	}
	return fields, err
}

var _ = styx.Register(record, "read", func(ctx *styx.Context, _ styx.None) ([]string, error) {
	return fieldsOf(ctx)
}, styx.ReadOnly(), styx.Doc("All fields."))

type change struct {
	Field uint32 `json:"field"`
	Value string `json:"value"`
}

var _ = styx.Register(record, "update", func(ctx *styx.Context, in change) (none styx.None, err error) {
	fields, err := fieldsOf(ctx)
	switch {
	case err != nil:
		return none, err
	case uint64(in.Field) >= uint64(len(fields)):
		return none, fmt.Errorf("record %s has no field %d", ctx.Key(), in.Field)
	}
	fields[in.Field] = in.Value
	return none, ctx.State.Put(fields)
}, styx.Doc("Replaces a field."))

var _ = styx.Register(record, "count", func(ctx *styx.Context, in Page) ([]any, error) {
	page, following, err := pageOf[[]string](ctx, "", in)
	bytes := 0
	for _, each := range page {
		for _, field := range each.Value {
			bytes += len(field)
		}
	}
	return []any{len(page), bytes, following}, err
}, styx.ReadOnly(), styx.Doc("A page of all records: [records, bytes of their fields, last key of the page or null]."))
