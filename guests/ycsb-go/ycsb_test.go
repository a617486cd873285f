package main

import (
	"errors"
	"testing"

	"styx"
	"styx/styxtest"
)

// check makes calls of [operator, key, function, arguments], and compares what they come to.
func check(t *testing.T, calls [][5]string) {
	t.Helper()
	app := styxtest.New()
	for _, each := range calls {
		reply, err := app.CallRaw(each[0], each[1], each[2], []byte(each[3]))
		found := string(reply)
		var failure *styx.Failure
		if errors.As(err, &failure) {
			found = failure.Code + ": " + failure.Message
		}
		if found != each[4] {
			t.Errorf("%s: %s", each, found)
		}
	}
}

func TestTransfersMoveOneAndKeepTheSum(t *testing.T) {
	check(t, [][5]string{
		{"account", "1", "insert", "[1]", "null"},
		{"account", "2", "insert", "[0]", "null"},
		{"account", "1", "transfer", `["2"]`, "0"},
		{"account", "2", "read", "[]", "1"},
		{"account", "1", "transfer", `["2"]`, "ABORTED: account 1 has nothing left"},
		{"account", "1", "transfer", `["1"]`, "ABORTED: a transfer needs two accounts"},
		{"account", "2", "transfer", `["3"]`, "ABORTED: there is no account 3"},
		{"account", "1", "read", "[]", "0"},
		{"account", "2", "read", "[]", "1"},
		{"account", "2", "update", "[]", "2"},
		{"account", "2", "transfer_async", `["1"]`, "1"},
		{"account", "2", "transfer_async", `["3"]`, "ABORTED: there is no account 3"},
		{"account", "1", "sum", "[null,2]", `[2,2,"2"]`},
		{"account", "1", "sum", `["2",2]`, "[0,0,null]"},
		{"account", "1", "sum", "[null,3]", "[2,2,null]"},
		{"account", "4", "insert", "[9223372036854775807]", "null"},
		{"account", "4", "update", "[]", "ABORTED: account 4 is full"},
	})
}

func TestMembersOfAGroupTransferAndAreSummedTogether(t *testing.T) {
	check(t, [][5]string{
		{"member", "a:1", "insert", "[1]", "null"},
		{"member", "a:2", "insert", "[0]", "null"},
		{"member", "b:1", "insert", "[7]", "null"},
		{"member", "a:1", "transfer", `["a:2"]`, "0"},
		{"member", "a:2", "read", "[]", "1"},
		{"member", "a:1", "transfer", `["a:2"]`, "ABORTED: account a:1 has nothing left"},
		{"member", "a:", "sum", "[null,2]", `[2,1,"a:2"]`},
		{"member", "a:", "sum", `["a:2",2]`, "[0,0,null]"},
		{"member", "b:", "sum", "[null,2]", "[1,7,null]"},
	})
}

func TestFieldsAreReplacedOneAtATime(t *testing.T) {
	check(t, [][5]string{
		{"record", "r", "read", "[]", "ABORTED: there is no record r"},
		{"record", "r", "insert", `[["a","b"]]`, "null"},
		{"record", "r", "update", `[1,"cé"]`, "null"},
		{"record", "r", "update", `[2,"e"]`, "ABORTED: record r has no field 2"},
		{"record", "r", "read", "[]", `["a","cé"]`},
		{"record", "r", "count", "[null,1]", `[1,4,"r"]`},
		{"record", "r", "count", `["r",1]`, "[0,0,null]"},
	})
}
