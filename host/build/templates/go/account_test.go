package main

import (
	"errors"
	"testing"

	"styx"
	"styx/styxtest"
)

func bank(t *testing.T) *styxtest.App {
	app := styxtest.New()
	if _, err := styxtest.Call[int64](app, "account", "ann", "deposit", 100); err != nil {
		t.Fatal(err)
	}
	return app
}

func TestMoneyMoves(t *testing.T) {
	app := bank(t)
	left, err := styxtest.Call[int64](app, "account", "ann", "transfer", "bob", 30)
	if err != nil || left != 70 {
		t.Fatal(left, err)
	}
}

func TestWhatIsNotThereDoesNotMove(t *testing.T) {
	app := bank(t)
	_, err := styxtest.Call[int64](app, "account", "ann", "transfer", "bob", 300)
	var failure *styx.Failure
	if !errors.As(err, &failure) || failure.AppCode != "INSUFFICIENT_FUNDS" {
		t.Fatal(err)
	}
	if left, err := styxtest.Call[int64](app, "account", "ann", "balance"); err != nil || left != 100 {
		t.Fatal(left, err)
	}
}
