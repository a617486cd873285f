package styxtest_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"styx"
	"styx/styxtest"
)

type number struct {
	N int64 `json:"n"`
}

var counter = styx.NewOperator("counter")

var add = styx.Register(counter, "add", func(ctx *styx.Context, in number) (int64, error) {
	var sum int64
	if _, err := ctx.State.Get(&sum); err != nil {
		return 0, err
	}
	sum += in.N
	ctx.Logf(styx.Info, "sum %d", sum)
	if sum < 0 {
		return 0, fmt.Errorf("%s would be %d", ctx.Key(), sum)
	}
	return sum, ctx.State.Put(sum)
})

type both struct {
	Other string `json:"other"`
	N     int64  `json:"n"`
}

var _ = styx.Register(counter, "move", func(ctx *styx.Context, in both) (int64, error) {
	if err := add.CallAsync(ctx, ctx.Key(), number{-in.N}); err != nil {
		return 0, err
	}
	sum, err := add.Call(ctx, in.Other, number{in.N})
	if err != nil {
		return 0, fmt.Errorf("moving: %w", err)
	}
	return sum, nil
})

var _ = styx.Register(counter, "swallow", func(ctx *styx.Context, in both) (styx.None, error) {
	_, _ = add.Call(ctx, in.Other, number{in.N})
	return styx.None{}, nil
})

var _ = styx.Register(counter, "page", func(ctx *styx.Context, in styx.Range) ([]styx.Entry[int64], error) {
	return styx.Scan[int64](ctx, in)
}, styx.ReadOnly())

var _ = styx.Register(counter, "cheat", func(ctx *styx.Context, _ styx.None) (styx.None, error) {
	return styx.None{}, ctx.State.Put(1)
}, styx.ReadOnly())

type closed struct{}

func (closed) Error() string   { return "closed" }
func (closed) AppCode() string { return "CLOSED_2" }

type how struct{ How string }

var _ = styx.Register(counter, "refuse", func(ctx *styx.Context, in how) (styx.None, error) {
	switch in.How {
	case "abort":
		return styx.None{}, styx.Abort("SOLD_OUT", "no %s", ctx.Key())
	case "typed":
		return styx.None{}, closed{}
	}
	return styx.None{}, fmt.Errorf("today: %w", closed{})
})

type relay struct {
	Operator, Function string
	Arguments          []any
}

var _ = styx.Register(counter, "relay", func(ctx *styx.Context, in relay) (styx.None, error) {
	_, err := styx.Call[any](ctx, in.Operator, "x", in.Function, in.Arguments...)
	return styx.None{}, err
})

var _ = styx.Register(counter, "panic", func(ctx *styx.Context, _ styx.None) (int, error) {
	var list []int
	return list[ctx.Random()], nil
})

func code(err error) string {
	var failure *styx.Failure
	if errors.As(err, &failure) {
		if failure.AppCode != "" {
			return failure.Code + ":" + failure.AppCode + ": " + failure.Message
		}
		return failure.Code + ": " + failure.Message
	}
	return fmt.Sprint(err)
}

func TestTransactions(t *testing.T) {
	app := styxtest.New()
	for _, each := range []struct{ key, function, arguments, want string }{
		{"a", "add", "[5]", "5"},
		{"a", "move", `["b",3]`, "3"},
		{"a", "move", `["b",3]`, "ABORTED: a would be -1"},
		{"b", "move", `["a",-4]`, "ABORTED: moving: a would be -2"},
		{"b", "swallow", `["a",-4]`, "ABORTED: a would be -2"},
		{"b", "add", "[0]", "3"},
		{"b", "add", "[]", "BAD_ARGUMENTS: argument `n` is missing"},
		{"b", "add", "[null]", "BAD_ARGUMENTS: argument `n`: expected an integer, not null"},
		{"b", "add", `["x"]`, "BAD_ARGUMENTS: argument `n`: expected an integer, not a string"},
		{"b", "add", "[9223372036854775808]", "BAD_ARGUMENTS: argument `n`: 9223372036854775808 does not fit into 64 bits"},
		{"b", "add", "[1,2]", "BAD_ARGUMENTS: too many arguments, it takes [n]"},
		{"b", "add", "{}", "BAD_ARGUMENTS: expected an array, not an object of arguments: [n]"},
		{"b", "sub", "[1]", "UNKNOWN_FUNCTION: operator counter has no function sub"},
		{"b", "refuse", `["abort"]`, "ABORTED:SOLD_OUT: no b"},
		{"b", "refuse", `["typed"]`, "ABORTED:CLOSED_2: closed"},
		{"b", "refuse", `["wrapped"]`, "ABORTED:CLOSED_2: today: closed"},
		{"b", "relay", `["counter","refuse",["abort"]]`, "ABORTED:SOLD_OUT: no x"},
		{"b", "relay", `["counter","add",[]]`, "GUEST_EXCEPTION: counter.add was called with arguments that it does not take: argument `n` is missing"},
		{"b", "relay", `["counter","sub",[]]`, "GUEST_EXCEPTION: counter.relay called nobody: operator counter has no function sub"},
		{"b", "cheat", "[]", "READ_ONLY: counter.b is written by a read-only function"},
		{"b", "page", `["","a","","","",0,true]`, `[{"Key":"b","Value":3},{"Key":"a","Value":2}]`},
		{"b", "page", `["","","a","","",1,false]`, `[{"Key":"b","Value":3}]`},
		{"b", "page", `["","","","","b",0,false]`, `[{"Key":"a","Value":2}]`},
	} {
		reply, err := app.CallRaw("counter", each.key, each.function, []byte(each.arguments))
		got := string(reply)
		if err != nil {
			got = code(err)
		}
		if got != each.want {
			t.Errorf("%s.%s%s: %s, not %s", each.key, each.function, each.arguments, got, each.want)
		}
	}
	if first := app.Logs()[0]; first != (styxtest.Line{Level: styx.Info, Message: "sum 5"}) {
		t.Error(first)
	}
}

func TestAPanicAbortsAndSaysWhere(t *testing.T) {
	app := styxtest.New()
	_, err := styxtest.Call[int](app, "counter", "a", "panic")
	var failure *styx.Failure
	if !errors.As(err, &failure) || failure.Code != "GUEST_EXCEPTION" {
		t.Fatal(err)
	}
	logs := app.Logs()
	if last := logs[len(logs)-1]; last.Level != styx.Warn || last.Message != "GUEST_EXCEPTION: "+failure.Message || !strings.HasPrefix(failure.Message, `counter.panic on "a": panic: runtime error: index out of range`) {
		t.Error(last)
	}
	var line int
	if count, _ := fmt.Sscanf(failure.Message[len(failure.Message)-len("app_test.go:00"):], "app_test.go:%d", &line); count != 1 {
		t.Error(failure.Message)
	}
}

func TestFunctionsOfOtherApps(t *testing.T) {
	app := styxtest.New()
	var got []string
	app.Play("billing/account", "charge", func(key string, arguments []byte) (any, error) {
		got = append(got, key+string(arguments))
		if string(arguments) == "[100]" {
			return nil, styx.Abort("TOO_MUCH", "%s has not as much", key)
		}
		return []int{7}, nil
	})
	app.Play("billing/account", "break", func(string, []byte) (any, error) { return nil, errors.New("broken") })
	for _, each := range []struct{ arguments, want string }{
		{`["billing/account","charge",[5]]`, "null"},
		{`["billing/account","charge",[100]]`, "ABORTED:TOO_MUCH: x has not as much"},
		{`["billing/account","break",[]]`, "ABORTED: broken"},
		{`["billing/account","refund",[]]`, "GUEST_EXCEPTION: counter.relay called nobody: nobody plays billing/account.refund: App.Play does"},
		{`["test/counter","add",[4]]`, "null"},
	} {
		reply, err := app.CallRaw("counter", "k", "relay", []byte(each.arguments))
		told := string(reply)
		if err != nil {
			told = code(err)
		}
		if told != each.want {
			t.Errorf("%s: %s, not %s", each.arguments, told, each.want)
		}
	}
	if want := []string{"x[5]", "x[100]"}; !slices.Equal(got, want) {
		t.Errorf("%v, not %v", got, want)
	}
}

type item struct {
	Cents int      `json:"cents"`
	Tags  []string `json:"tags,omitempty"`
}

type before struct {
	Euros *int `json:"euros"`
}

var shelf = styx.NewOperator("shelf", styx.StateType[item]())

func init() {
	styx.MigrateState(shelf, func(old before) (item, error) {
		if old.Euros == nil {
			return item{}, styx.Abort("NO_PRICE", "it has no price")
		}
		return item{Cents: *old.Euros * 100}, nil
	})
}

func look(ctx *styx.Context, _ styx.None) (int, error) {
	var mine item
	err := ctx.State.Require(&mine)
	return mine.Cents, err
}

var _ = styx.Register(shelf, "look", look)
var _ = styx.Register(shelf, "peek", look, styx.ReadOnly())
var _ = styx.Register(shelf, "look_at", func(ctx *styx.Context, in struct{ Key string }) (int, error) {
	var other item
	_, err := ctx.State.GetAt(in.Key, &other)
	return other.Cents, err
})
var _ = styx.Register(shelf, "total", func(ctx *styx.Context, _ styx.None) (sum int, err error) {
	entries, err := styx.Scan[item](ctx, styx.Range{})
	for _, entry := range entries {
		sum += entry.Value.Cents
	}
	return sum, err
})
var _ = styx.Register(shelf, "migrate", func(ctx *styx.Context, _ styx.None) (bool, error) {
	return styx.Call[bool](ctx, "shelf", "b", "styx.migrate")
})

func TestMigrations(t *testing.T) {
	app := styxtest.New()
	for _, key := range []string{"a", "b", "c"} {
		if err := app.SetState("shelf", key, map[string]int{"euros": 3}); err != nil {
			t.Fatal(err)
		}
	}
	if err := app.SetState("shelf", "odd", map[string]int{}); err != nil {
		t.Fatal(err)
	}
	stored := func(key string) string {
		var value any
		if found, err := app.State("shelf", key, &value); !found || err != nil {
			t.Fatal(key, found, err)
		}
		text, err := styx.Marshal(value)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	const old, now = `{"euros":3}`, `{"cents":300}`
	for _, each := range []struct{ key, function, arguments, want, entity, then string }{
		{"a", "peek", "[]", "300", "a", old},
		{"a", "look", "[]", "300", "a", now},
		{"a", "look_at", `["b"]`, "300", "b", now},
		{"c", "styx.migrate", "[]", "true", "c", now},
		{"c", "styx.migrate", "[]", "false", "c", now},
		{"none", "styx.migrate", "[]", "false", "c", now},
		{"odd", "styx.migrate", "[]", "ABORTED:NO_PRICE: it has no price", "odd", "{}"},
		{"a", "total", "[]", "ABORTED:NO_PRICE: state of \"odd\": it has no price", "a", now},
		{"a", "migrate", "[]", "GUEST_EXCEPTION: shelf.migrate called nobody: operator shelf has no function styx.migrate", "a", now},
	} {
		reply, err := app.CallRaw("shelf", each.key, each.function, []byte(each.arguments))
		got := string(reply)
		if err != nil {
			got = code(err)
		}
		if got != each.want || stored(each.entity) != each.then {
			t.Errorf("%s.%s%s = %s, want %s; %s is %s", each.key, each.function, each.arguments, got, each.want, each.entity, stored(each.entity))
		}
	}
}
