// Package styxtest runs an app's functions in memory, for its own tests: no server, no component.
//
//	func TestTake(t *testing.T) {
//		app := styxtest.New()
//		app.SetState("stock", "apple", Item{Stock: 3, Price: 10})
//		cost, err := styxtest.Call[int](app, "stock", "apple", "take", 2)
//		...
//	}
//
// Each call is one transaction: its writes stay if it succeeds and are gone if it does not. Transactions run one after
// another, which is what the real system makes it look like. Limits (fuel, memory, call depth) are not enforced here;
// time.Now and math/rand are the machine's, only the context's are the transaction's.
package styxtest

import (
	"errors"
	"fmt"
	"math/bits"
	"sort"
	"strings"
	"time"

	"styx"
	"styx/internal/host"
)

// appName is what the app under test is called.
const appName = "test"

// App is an app under test, with the operators of the package under test: their state, and what they logged.
type App struct {
	functions map[string]bool // read-only or not, by operator.function
	operators map[string]bool
	played    map[string]Play // of other apps, by app/operator.function
	states    map[entity][]byte
	logs      []Line
	now       time.Time
	tid       uint64
}

// Play plays a function of another app: its arguments are JSON, and so is what it returns; an error is a refusal.
type Play func(key string, arguments []byte) (any, error)

type entity struct{ operator, key string }

// Line is a log line.
type Line struct {
	Level   styx.Level
	Message string
}

// New is an app without state; time stands at 2026-01-01.
func New() *App {
	app := &App{
		functions: map[string]bool{}, operators: map[string]bool{}, played: map[string]Play{}, states: map[entity][]byte{},
		now: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC),
	}
	for _, function := range host.Functions() {
		app.functions[function.Operator+"."+function.Name] = function.ReadOnly
		app.operators[function.Operator] = true
	}
	return app
}

// Play has a function of another app played, whose operator is written app/operator, as in a call:
//
//	app.Play("billing/account", "charge", func(key string, arguments []byte) (any, error) { return 100, nil })
func (a *App) Play(operator, function string, play Play) { a.played[operator+"."+function] = play }

// Call runs a function as one transaction. A failure is a *styx.Failure.
func Call[Out any](app *App, operator, key, function string, arguments ...any) (Out, error) {
	var result Out
	if arguments == nil {
		arguments = []any{}
	}
	encoded, err := styx.Marshal(arguments)
	if err != nil {
		return result, err
	}
	reply, err := app.CallRaw(operator, key, function, encoded)
	if err != nil {
		return result, err
	}
	if _, none := any(result).(styx.None); none {
		return result, nil
	}
	return result, styx.Unmarshal(reply, &result)
}

// CallRaw is Call with arguments and result as JSON.
func (a *App) CallRaw(operator, key, function string, arguments []byte) ([]byte, error) {
	if host.Current != nil {
		panic("styxtest: a function of the app calls the app under test: call through its context")
	}
	a.tid++
	run := &run{app: a, writes: map[entity][]byte{}}
	host.Current = run
	defer func() { host.Current = nil }()
	reply, failure := run.call(false, operator, key, function, arguments)
	if failure != nil {
		return nil, (*styx.Failure)(failure)
	}
	for at, value := range run.writes {
		if value == nil {
			delete(a.states, at)
		} else {
			a.states[at] = value
		}
	}
	return reply, nil
}

// State reads the state of an entity into what value points to, and says whether it is there.
func (a *App) State(operator, key string, value any) (bool, error) {
	data, found := a.states[entity{operator, key}]
	if !found {
		return false, nil
	}
	return true, styx.Unmarshal(data, value)
}

// SetState sets the state of an entity without a transaction.
func (a *App) SetState(operator, key string, value any) error {
	data, err := styx.Marshal(value)
	if err == nil {
		a.states[entity{operator, key}] = data
	}
	return err
}

// SetTime sets the time of the transactions to come.
func (a *App) SetTime(now time.Time) { a.now = now }

// Logs are the lines of all transactions so far, also of those that aborted.
func (a *App) Logs() []Line { return a.logs }

// run is one transaction: its buffered writes and its invocations in progress.
type run struct {
	app         *App
	writes      map[entity][]byte // nil is a delete
	frames      []*frame
	invocations uint64
	doomed      *host.Failure
}

type frame struct {
	operator, function, key string
	readOnly                bool
	generator               uint64
	later                   []later
}

type later struct {
	operator, key, function string
	arguments               []byte
}

func (r *run) top() *frame { return r.frames[len(r.frames)-1] }

// call runs a function, then what it called asynchronously.
func (r *run) call(readOnly bool, operator, key, function string, arguments []byte) ([]byte, *host.Failure) {
	reply, failure := r.invoke(readOnly, operator, key, function, arguments)
	// A failure cannot be undone by a caller that ignores it.
	if failure == nil {
		failure = r.doomed
	} else if r.doomed == nil {
		r.doomed = failure
	}
	if failure != nil {
		return nil, failure
	}
	return reply, nil
}

func (r *run) invoke(readOnly bool, operator, key, function string, arguments []byte) ([]byte, *host.Failure) {
	operator = strings.TrimPrefix(operator, appName+"/")
	qualified := operator + "." + function
	if play := r.app.played[qualified]; play != nil {
		return r.play(play, key, arguments)
	}
	declared, known := r.app.functions[qualified]
	// What the host does to entities no function does.
	known = known && !(strings.HasPrefix(function, "styx.") && len(r.frames) > 0)
	if !known {
		failure := &host.Failure{Code: "UNKNOWN_OPERATOR", Message: fmt.Sprintf("the app has no operator %s", operator)}
		if strings.Contains(operator, "/") {
			failure.Message = fmt.Sprintf("nobody plays %s: App.Play does", qualified)
		} else if r.app.operators[operator] {
			failure = &host.Failure{Code: "UNKNOWN_FUNCTION", Message: fmt.Sprintf("operator %s has no function %s", operator, function)}
		}
		if len(r.frames) > 0 {
			failure = r.bug(fmt.Sprintf("%s.%s called nobody: %s", r.top().operator, r.top().function, failure.Message))
		}
		return nil, failure
	}
	r.invocations++
	own := &frame{
		operator: operator, function: function, key: key, readOnly: readOnly || declared,
		generator: r.app.tid*0x9e3779b97f4a7c15 ^ bits.RotateLeft64(r.invocations, 32),
	}
	r.frames = append(r.frames, own)
	reply, failure := host.Invoke(operator+"."+function, key, arguments)
	r.frames = r.frames[:len(r.frames)-1]
	switch {
	case failure == nil:
	case r.doomed != nil:
		return nil, failure
	case failure.Code == "BAD_ARGUMENTS" && len(r.frames) > 0:
		return nil, r.bug(fmt.Sprintf("%s was called with arguments that it does not take: %s", qualified, failure.Message))
	case failure.Code == "GUEST_EXCEPTION":
		return nil, r.bug(fmt.Sprintf("%s on %q: %s", qualified, key, failure.Message))
	default:
		return nil, failure
	}
	for _, next := range own.later {
		if _, failure := r.call(own.readOnly, next.operator, next.key, next.function, next.arguments); failure != nil {
			return nil, failure
		}
	}
	return reply, nil
}

// play answers a call of another app's function.
func (r *run) play(play Play, key string, arguments []byte) ([]byte, *host.Failure) {
	value, err := play(key, arguments)
	if err == nil {
		var reply []byte
		if reply, err = styx.Marshal(value); err == nil {
			return reply, nil
		}
	}
	var failure *styx.Failure
	if errors.As(err, &failure) {
		return nil, (*host.Failure)(failure)
	}
	return nil, &host.Failure{Code: "ABORTED", Message: err.Error()}
}

// bug is a failure that is the app's own fault, logged as a server logs it.
func (r *run) bug(message string) *host.Failure {
	failure := &host.Failure{Code: "GUEST_EXCEPTION", Message: message}
	if r.doomed == nil {
		r.app.logs = append(r.app.logs, Line{styx.Warn, failure.Code + ": " + message})
	}
	return failure
}

func (r *run) Get(key string) ([]byte, bool) {
	at := entity{r.top().operator, key}
	if value, written := r.writes[at]; written {
		return value, value != nil
	}
	value, found := r.app.states[at]
	return value, found
}

func (r *run) write(key string, value []byte) {
	own := r.top()
	if own.readOnly && r.doomed == nil {
		r.doomed = &host.Failure{Code: "READ_ONLY", Message: fmt.Sprintf("%s.%s is written by a read-only function", own.operator, key)}
	}
	r.writes[entity{own.operator, key}] = value
}

func (r *run) Put(key string, value []byte) { r.write(key, append([]byte{}, value...)) }
func (r *run) Delete(key string)            { r.write(key, nil) }

func (r *run) Scan(within host.Range) []host.Entry {
	operator := r.top().operator
	merged := map[string][]byte{}
	for at, value := range r.app.states {
		if at.operator == operator {
			merged[at.key] = value
		}
	}
	for at, value := range r.writes {
		if at.operator == operator {
			merged[at.key] = value
			if value == nil {
				delete(merged, at.key)
			}
		}
	}
	var keys []string
	for key := range merged {
		if strings.HasPrefix(key, within.Prefix) && key >= within.From &&
			(within.After == "" || key > within.After) &&
			(within.To == "" || key <= within.To) && (within.Before == "" || key < within.Before) {
			keys = append(keys, key)
		}
	}
	sort.Strings(keys)
	if within.Reverse {
		sort.Sort(sort.Reverse(sort.StringSlice(keys)))
	}
	if within.Limit > 0 && len(keys) > int(within.Limit) {
		keys = keys[:within.Limit]
	}
	entries := make([]host.Entry, len(keys))
	for i, key := range keys {
		entries[i] = host.Entry{Key: []byte(key), Value: merged[key]}
	}
	return entries
}

func (r *run) Call(operator, key, function string, arguments []byte) ([]byte, *host.Failure) {
	return r.call(r.top().readOnly, operator, key, function, arguments)
}

func (r *run) CallAsync(operator, key, function string, arguments []byte) {
	own := r.top()
	own.later = append(own.later, later{operator, key, function, append([]byte{}, arguments...)})
}

func (r *run) App() string       { return appName }
func (r *run) Operator() string  { return r.top().operator }
func (r *run) Key() string       { return r.top().key }
func (r *run) TID() uint64       { return r.app.tid }
func (r *run) RequestID() string { return fmt.Sprintf("test-%d", r.app.tid) }
func (r *run) Time() uint64      { return uint64(r.app.now.UnixMicro()) }

// Random is SplitMix64, seeded for each invocation.
func (r *run) Random() uint64 {
	own := r.top()
	own.generator += 0x9e3779b97f4a7c15
	mixed := own.generator
	mixed = (mixed ^ mixed>>30) * 0xbf58476d1ce4e5b9
	mixed = (mixed ^ mixed>>27) * 0x94d049bb133111eb
	return mixed ^ mixed>>31
}

func (r *run) Log(level uint8, message string) {
	r.app.logs = append(r.app.logs, Line{styx.Level(level), message})
}
