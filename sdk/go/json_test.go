package styx

import (
	"encoding/json"
	"math"
	"reflect"
	"strings"
	"testing"
	"time"
)

type inner struct {
	A int     `json:"a"`
	B *string `json:"b"`
}

type everything struct {
	inner
	Flag  bool           `json:"flag"`
	Small int8           `json:"small"`
	Big   uint64         `json:"big"`
	Ratio float64        `json:"ratio"`
	List  []int          `json:"list"`
	Pair  [2]string      `json:"pair"`
	Map   map[string]int `json:"map"`
	Ids   map[int]bool   `json:"ids"`
	Bytes []byte         `json:"bytes"`
	When  time.Time      `json:"when"`
	Any   any            `json:"any"`
	Next  *everything    `json:"next,omitempty"`
	Skip  int            `json:"-"`
	own   int
}

func TestValuesComeBack(t *testing.T) {
	b := "é\n\"\\\u0001<&>"
	value := everything{
		inner: inner{7, &b}, Flag: true, Small: -128, Big: math.MaxUint64, Ratio: 100,
		List: []int{math.MinInt64, 2}, Pair: [2]string{"x", ""}, Map: map[string]int{"z": 1, "a": 2},
		Ids: map[int]bool{3: true}, Bytes: []byte{1, 2}, When: time.Unix(1, 0).UTC(),
		Any:  map[string]any{"n": json.Number("9007199254740993"), "l": []any{nil, true, "s"}},
		Next: &everything{List: []int{}, Map: map[string]int{}, Ids: map[int]bool{}, Bytes: []byte{}, When: time.Unix(0, 0).UTC()},
	}
	text, err := Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	if !json.Valid(text) {
		t.Fatalf("%s", text)
	}
	start := `{"a":7,"b":"é\n\"\\\u0001<&>","flag":true,"small":-128,"big":18446744073709551615,"ratio":100.0,"list":[-9223372036854775808,2],"pair":["x",""],"map":{"a":2,"z":1},"ids":{"3":true},"bytes":"AQI=","when":"1970-01-01T00:00:01Z","any":{"l":[null,true,"s"],"n":9007199254740993},"next":{`
	if !strings.HasPrefix(string(text), start) {
		t.Errorf("%s", text)
	}
	var back everything
	if err := Unmarshal(text, &back); err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(back, value) {
		t.Errorf("%+v, not %+v", back, value)
	}
}

func TestWhatIsWritten(t *testing.T) {
	one := struct{ P *int }{}
	for _, each := range []struct {
		value any
		want  string
	}{
		{nil, "null"}, {[]string(nil), "[]"}, {map[string]int(nil), "{}"}, {1.5e300, "1.5e+300"}, {float32(0.1), "0.1"},
		{1e-7, "1e-07"}, {None{}, "{}"}, {one, `{"P":null}`}, {&one, `{"P":null}`}, {[1]*int{}, "[null]"},
		{json.RawMessage(" [1, 2]"), "[1,2]"}, {time.Second, "1000000000"}, {"\u2028", "\"\u2028\""},
		{math.NaN(), "!NaN has no JSON form"}, {"\xff", "!a string that is not UTF-8 has no JSON form: use []byte"},
		{make(chan int), "!a value of type chan int has no JSON form"}, {json.Number("01"), `!"01" is no number`},
	} {
		text, err := Marshal(each.value)
		got := string(text)
		if err != nil {
			got = "!" + err.Error()
		}
		if got != each.want {
			t.Errorf("%#v: %s, not %s", each.value, got, each.want)
		}
	}
}

func TestWhatIsRefused(t *testing.T) {
	for _, each := range []struct{ text, want string }{
		{`{"a":null}`, "at /a: expected an integer, not null"},
		{`{"a":1.0}`, "at /a: expected an integer, not 1.0"},
		{`{"small":128}`, "at /small: 128 does not fit into int8"},
		{`{"small":-129}`, "at /small: -129 does not fit into int8"},
		{`{"big":-1}`, "at /big: expected an integer of at least 0, not -1"},
		{`{"big":18446744073709551616}`, "at /big: 18446744073709551616 does not fit into 64 bits"},
		{`{"list":[1,"x"]}`, "at /list/1: expected an integer, not a string"},
		{`{"pair":["x"]}`, "at /pair: 1 elements, not 2"},
		{`{"ratio":1e999}`, "at /ratio: 1e999 does not fit into a float64"},
		{`{"unknown":[1,{"x":tru}]}`, "at /unknown/1/x: invalid JSON at byte 19"},
		{`{"a":01}`, "at /a: expected an integer, not 0"},
		{`{"b":"\ud800"}`, "at /b: invalid JSON at byte 12"},
		{`{"a":1`, "invalid JSON: it ends too early"},
		{`{} x`, "invalid JSON: something follows at byte 3"},
		{strings.Repeat("[", 100000), "expected an object, not an array"},
		{`{"any":` + strings.Repeat("[", 100000), "the JSON is nested too deeply"},
		{"", "invalid JSON: it ends too early"},
	} {
		var value everything
		err := Unmarshal([]byte(each.text), &value)
		if err == nil || err.Error() != each.want {
			t.Errorf("%.40s: %v, not %s", each.text, err, each.want)
		}
	}
}

// Whatever encoding/json reads of plain values is read alike, and the other way round.
func FuzzReader(f *testing.F) {
	for _, seed := range []string{`{"a":[1,-0.5e3,"\ud83d\ude00\u00e9\/"],"b":null}`, `[[],{}]`, `"\x"`, `1 2`, `-`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		var own any
		err := Unmarshal(text, &own)
		if err == nil && !json.Valid(text) {
			t.Errorf("%q is taken", text)
		}
		if err == nil {
			written, err := Marshal(own)
			if err != nil || !json.Valid(written) {
				t.Errorf("%q became %q: %v", text, written, err)
			}
		}
	})
}

func TestSchemas(t *testing.T) {
	type tree struct {
		Leaf     uint8   `json:"leaf" doc:"how big"`
		Branches []*tree `json:"branches,omitempty"`
	}
	schema, err := schemaOf(reflect.TypeFor[tree]())
	want := `{"type":"object","properties":{"leaf":{"description":"how big","type":"integer","minimum":0,"maximum":255},"branches":{"type":"array","items":{"anyOf":[{},{"type":"null"}]}}},"required":["leaf"]}`
	if err != nil || schema != want {
		t.Errorf("%s, %v", schema, err)
	}
	if _, err := schemaOf(reflect.TypeFor[struct{ F func() }]()); err == nil {
		t.Error("a function has no schema")
	}
}

func TestDeclarationsAreChecked(t *testing.T) {
	panics := func(what string, declare func()) {
		defer func() {
			if text, _ := recover().(string); !strings.Contains(text, what) {
				t.Errorf("%q, not %q", text, what)
			}
		}()
		declare()
	}
	run := func(*Context, None) (None, error) { return None{}, nil }
	declared := NewOperator("declared", KeyPrefix("w"))
	Register(declared, "f", run)
	panics("declared twice", func() { NewOperator("declared") })
	panics("registered twice", func() { Register(declared, "f", run) })
	panics("is no name of a function", func() { Register(declared, "1f", run) })
	panics("is no name of a operator", func() { NewOperator("") })
	panics("parameters are the fields of a struct", func() {
		Register(declared, "g", func(*Context, int) (None, error) { return None{}, nil })
	})
	panics("parameter C: a value of type chan int has no JSON form", func() {
		Register(declared, "h", func(*Context, struct{ C chan int }) (None, error) { return None{}, nil })
	})
}

// Every byte at every place of the eight that are looked at together.
func TestStringsAreEscapedAtEveryPlace(t *testing.T) {
	for _, special := range []string{"\"", "\\", "\n", "\x00", "\x1f", " ", "!", "#", "[", "]", "\x7f", "é", "€", "😀"} {
		for place := range 20 {
			text := strings.Repeat("x", place) + special + strings.Repeat("y", 20-place)
			written, err := Marshal(text)
			if err != nil {
				t.Fatal(err)
			}
			var theirs, own string
			if err := json.Unmarshal(written, &theirs); err != nil || theirs != text {
				t.Errorf("%q became %s", text, written)
			}
			if err := Unmarshal(written, &own); err != nil || own != text {
				t.Errorf("%s became %q: %v", written, own, err)
			}
		}
	}
}
