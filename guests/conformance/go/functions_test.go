package main

import (
	"errors"
	"os"
	"strings"
	"testing"

	"styx"
	"styx/styxtest"
)

func TestCases(t *testing.T) {
	cases, err := os.ReadFile("../cases.tsv")
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(string(cases)), "\n")[1:]
	if len(lines) < 40 {
		t.Fatal(len(lines))
	}
	app := styxtest.New()
	for _, line := range lines {
		parts := strings.Split(line, "\t")
		reply, err := app.CallRaw("go", parts[0], parts[1], []byte(parts[2]))
		found, expected := string(reply), parts[3]
		var failure *styx.Failure
		if errors.As(err, &failure) {
			found = failure.Code + ": " + failure.Message
			if failure.AppCode != "" {
				found = failure.Code + ":" + failure.AppCode + ": " + failure.Message
			}
		}
		if found != expected && (strings.Contains(expected, ":") || !strings.HasPrefix(found, expected+":")) {
			t.Errorf("%s: %s", line, found)
		}
	}
}
