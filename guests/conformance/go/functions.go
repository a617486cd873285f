// What every language does, in Go.
package main

import (
	"errors"
	"math"

	"styx"
)

var own = styx.NewOperator("go")

type integer struct {
	N int64 `json:"n"`
}

type number struct {
	X float64 `json:"x"`
}

type text struct {
	Text string `json:"text"`
}

type list struct {
	Numbers []int64 `json:"numbers"`
}

type anything struct {
	Value any `json:"value"`
}

type page struct {
	Prefix  string `json:"prefix"`
	Limit   uint32 `json:"limit"`
	Reverse bool   `json:"reverse"`
}

type refusal struct {
	Code    string `json:"code"`
	Message string `json:"message"`
}

type path struct {
	Languages []string `json:"languages"`
	N         int64    `json:"n"`
}

var (
	_ = styx.Register(own, "echo_int", func(_ *styx.Context, in integer) (int64, error) { return in.N, nil })
	_ = styx.Register(own, "echo_text", func(_ *styx.Context, in text) (string, error) { return in.Text, nil })
	_ = styx.Register(own, "echo_list", func(_ *styx.Context, in list) ([]int64, error) { return in.Numbers, nil })
	_ = styx.Register(own, "echo_number", func(_ *styx.Context, in number) (float64, error) { return in.X, nil })
	_ = styx.Register(own, "echo_any", func(_ *styx.Context, in anything) (any, error) { return in.Value, nil })
)

var _ = styx.Register(own, "no_number", func(_ *styx.Context, in number) (float64, error) {
	if in.X > 1 {
		return in.X * 1e308, nil
	}
	return math.NaN(), nil
})

// Stores a number, or what is none for more than 1, and says of what it reads then whether it is below zero, or -0.
var _ = styx.Register(own, "kept_sign", func(ctx *styx.Context, in number) (bool, error) {
	kept := in.X
	if kept > 1 {
		kept = math.NaN()
	}
	if err := ctx.State.Put(kept); err != nil {
		return false, err
	}
	err := ctx.State.Require(&kept)
	ctx.State.Delete()
	return math.Signbit(kept), err
})

var _ = styx.Register(own, "get", func(ctx *styx.Context, _ styx.None) (*int64, error) {
	var n int64
	found, err := ctx.State.Get(&n)
	if err != nil || !found {
		return nil, err
	}
	return &n, nil
}, styx.ReadOnly())

var _ = styx.Register(own, "add", func(ctx *styx.Context, in integer) (int64, error) {
	var total int64
	if _, err := ctx.State.Get(&total); err != nil {
		return 0, err
	}
	total += in.N
	return total, ctx.State.Put(total)
})

var _ = styx.Register(own, "remove", func(ctx *styx.Context, _ styx.None) (styx.None, error) {
	ctx.State.Delete()
	return styx.None{}, nil
})

var _ = styx.Register(own, "keys", func(ctx *styx.Context, in page) ([]string, error) {
	found, err := styx.Scan[int64](ctx, styx.Range{Prefix: in.Prefix, Limit: in.Limit, Reverse: in.Reverse})
	keys := []string{}
	for _, entry := range found {
		keys = append(keys, entry.Key)
	}
	return keys, err
}, styx.ReadOnly())

var _ = styx.Register(own, "refuse", func(_ *styx.Context, in refusal) (styx.None, error) {
	return styx.None{}, styx.Abort(in.Code, "%s", in.Message)
})

var _ = styx.Register(own, "write_and_refuse", func(ctx *styx.Context, _ styx.None) (styx.None, error) {
	if err := ctx.State.Put(99); err != nil {
		return styx.None{}, err
	}
	return styx.None{}, errors.New("after writing")
})

// Adds here, then in each of the languages, one calling the next: the sum of what they come to.
var _ = styx.Register(own, "through", func(ctx *styx.Context, in path) (int64, error) {
	var total, below int64
	if _, err := ctx.State.Get(&total); err != nil {
		return 0, err
	}
	total += in.N
	if len(in.Languages) > 0 {
		var err error
		next, rest := in.Languages[0], in.Languages[1:]
		if below, err = styx.Call[int64](ctx, next, ctx.Key(), "through", rest, in.N); err != nil {
			return 0, err
		}
		if err = styx.CallAsync(ctx, next, "later", "add", in.N); err != nil {
			return 0, err
		}
	}
	return below + total, ctx.State.Put(total)
})

func main() {}
