package main

import (
	"strings"
	"testing"

	"styx/styxtest"
)

func TestASeatIsBookedOnce(t *testing.T) {
	app := styxtest.New()
	book := func(seats int, onward ...string) (int64, error) {
		return styxtest.Call[int64](app, "ferry", "friday", "book", seats, append([]string{}, onward...))
	}
	refused := func(seats int, reason string) {
		t.Helper()
		if _, err := book(seats); err == nil || !strings.Contains(err.Error(), reason) {
			t.Errorf("%v", err)
		}
	}
	refused(1, "no ferry sails on friday")
	app.SetState("ferry", "friday", leg{Free: 3, Price: 40})
	if price, err := book(2); price != 80 || err != nil {
		t.Error(price, err)
	}
	refused(2, "the ferry on friday is full")
	if price, err := book(0, "ferry", "ferry"); price != 0 || err != nil {
		t.Error(price, err)
	}
	if price, err := book(1); price != 40 || err != nil {
		t.Error(price, err)
	}
}
