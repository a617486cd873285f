package styx

import (
	"fmt"
	"path"
	"reflect"
	"runtime"
	"strings"
	"unsafe"
)

// None is the type of no parameters and of no result.
type None struct{}

// Operator is a kind of entity with its functions. Declare one as a package's variable.
type Operator struct {
	name      string
	doc       string
	keyPrefix *string
	functions []*function
	// stored is nil if it says nothing of its values.
	stored *stored
}

// Option says more of an operator or a function.
type Option func(*settings)

type settings struct {
	doc       string
	keyPrefix *string
	readOnly  bool
	stored    *stored
}

// Doc is the documentation of an operator or a function.
func Doc(text string) Option { return func(s *settings) { s.doc = text } }

// KeyPrefix declares that an operator's keys read prefix:rest, and that all keys of one prefix live together, whatever
// the operator.
func KeyPrefix(prefix string) Option { return func(s *settings) { s.keyPrefix = &prefix } }

// ReadOnly declares that a function neither writes nor calls one that does. The host enforces it.
func ReadOnly() Option { return func(s *settings) { s.readOnly = true } }

func settingsOf(options []Option) settings {
	var s settings
	for _, option := range options {
		option(&s)
	}
	return s
}

var (
	operators []*Operator
	table     = map[string]*function{}
)

// NewOperator declares an operator. It panics if the name is none or taken, which ends the deployment.
func NewOperator(name string, options ...Option) *Operator {
	checkName("operator", name)
	for _, other := range operators {
		if other.name == name {
			refuse("the operator %s is declared twice", name)
		}
	}
	s := settingsOf(options)
	operator := &Operator{name: name, doc: s.doc, keyPrefix: s.keyPrefix, stored: s.stored}
	if s.stored != nil {
		operator.functions = append(operator.functions, &function{
			operator: operator, name: stateName, readOnly: true, returns: s.stored.schema,
		})
	}
	operators = append(operators, operator)
	return operator
}

// Name is the operator's name.
func (o *Operator) Name() string { return o.name }

// function is one function of an operator, ready to run.
type function struct {
	operator *Operator
	name     string
	// full is operator.function.
	full       string
	doc        string
	readOnly   bool
	parameters []parameter
	// names are the parameters', for messages.
	names   string
	returns string
	invoke  func(ctx *Context, arguments []byte, out []byte) ([]byte, error)
}

// Function is a registered function, for calling it from others: In is a struct with a field for each parameter, Out
// the type of the result.
type Function[In, Out any] struct {
	function *function
	encode   func(out []byte, in *In) ([]byte, error)
	decode   decoder
}

// Register adds a function to an operator. In is a struct whose exported fields are the parameters, in their order and
// with the names of their json tags; a pointer, or a field with omitempty, need not be given. In is None for no
// parameters, Out is None for no result. Options are [Doc] and [ReadOnly].
//
// It panics if the function cannot be described, which ends the deployment.
func Register[In, Out any](o *Operator, name string, run func(ctx *Context, in In) (Out, error), options ...Option) *Function[In, Out] {
	checkName("function", name)
	full := o.name + "." + name
	if table[full] != nil {
		refuse("the function %s is registered twice", full)
	}
	if run == nil {
		refuse("the function %s is nil", full)
	}
	s := settingsOf(options)
	in, out := reflect.TypeFor[In](), reflect.TypeFor[Out]()
	parameters, err := parametersOf(in)
	if err != nil {
		refuse("%s: %v", full, err)
	}
	none := out == reflect.TypeFor[None]()
	returns := `{"type":"null"}`
	var encodeOut encoder
	var decodeOut decoder
	if !none {
		encodeOut, err = encoderOf(out)
		if err == nil {
			decodeOut, err = decoderOf(out)
		}
		if err == nil {
			returns, err = schemaOf(out)
		}
		if err != nil {
			refuse("the result of %s: %v", full, err)
		}
	}
	names := make([]string, len(parameters))
	for i, parameter := range parameters {
		names[i] = parameter.name
	}
	f := &function{
		operator: o, name: name, full: full, doc: s.doc, readOnly: s.readOnly,
		parameters: parameters, names: strings.Join(names, ", "), returns: returns,
	}
	// Memory for what is read and written by its type, once and not in every invocation.
	place := new(struct {
		in  In
		out Out
	})
	f.invoke = func(ctx *Context, arguments []byte, reply []byte) ([]byte, error) {
		var noIn In
		// A panic may have left something.
		place.in = noIn
		err := f.readArguments(arguments, unsafe.Pointer(&place.in))
		in := place.in
		place.in = noIn
		if err != nil {
			return reply, err
		}
		result, err := run(ctx, in)
		if err != nil {
			return reply, err
		}
		if encodeOut == nil {
			return append(reply, "null"...), nil
		}
		var noOut Out
		place.out = result
		reply, err = encodeOut(reply, unsafe.Pointer(&place.out))
		place.out = noOut
		if err != nil {
			err = &Failure{Code: codeGuestException, Message: "result: " + err.Error()}
		}
		return reply, err
	}
	o.functions = append(o.functions, f)
	table[full] = f
	return &Function[In, Out]{
		function: f,
		encode: func(reply []byte, in *In) ([]byte, error) {
			return f.writeArguments(reply, unsafe.Pointer(in))
		},
		decode: decodeOut,
	}
}

// Name is the function's name.
func (f *Function[In, Out]) Name() string { return f.function.name }

// Call runs the function on an entity, inside this transaction, and returns its result. A failure dooms the whole
// transaction: return it, with more words or without.
func (f *Function[In, Out]) Call(ctx *Context, key string, in In) (Out, error) {
	var result Out
	arguments, err := f.encode(scratch(), &in)
	if err != nil {
		return result, err
	}
	mark := hostMark()
	reply, err := hostCall(f.function.operator.name, key, f.function.name, arguments)
	keepScratch(arguments)
	if err != nil {
		return result, err
	}
	if f.decode != nil {
		if err = decodeAll(reply, f.decode, unsafe.Pointer(&result)); err != nil {
			err = fmt.Errorf("result of %s.%s: %w", f.function.operator.name, f.function.name, err)
		}
	}
	hostRelease(mark)
	return result, err
}

// CallAsync has the function run on an entity after this one has returned, in the order issued and depth first, inside
// this transaction. Its result is dropped; its failure aborts the transaction.
func (f *Function[In, Out]) CallAsync(ctx *Context, key string, in In) error {
	arguments, err := f.encode(scratch(), &in)
	if err != nil {
		return err
	}
	hostCallAsync(f.function.operator.name, key, f.function.name, arguments)
	keepScratch(arguments)
	return nil
}

// Call runs a function by its name: one of another language, one that calls itself, or one of another app, whose operator is
// written app/operator. Arguments are positional.
func Call[Out any](ctx *Context, operator, key, function string, arguments ...any) (Out, error) {
	var result Out
	encoded, err := encodeList(scratch(), arguments)
	if err != nil {
		return result, err
	}
	mark := hostMark()
	reply, err := hostCall(operator, key, function, encoded)
	keepScratch(encoded)
	if err != nil {
		return result, err
	}
	if reflect.TypeFor[Out]() != reflect.TypeFor[None]() {
		if err = unmarshal(reply, &result); err != nil {
			err = fmt.Errorf("result of %s.%s: %w", operator, function, err)
		}
	}
	hostRelease(mark)
	return result, err
}

// CallAsync is [Function.CallAsync] by name.
func CallAsync(ctx *Context, operator, key, function string, arguments ...any) error {
	encoded, err := encodeList(scratch(), arguments)
	if err != nil {
		return err
	}
	hostCallAsync(operator, key, function, encoded)
	keepScratch(encoded)
	return nil
}

func encodeList(out []byte, values []any) ([]byte, error) {
	out = append(out, '[')
	for i, value := range values {
		if i > 0 {
			out = append(out, ',')
		}
		var err error
		if out, err = appendAny(out, value); err != nil {
			return out, fmt.Errorf("argument %d: %w", i+1, err)
		}
	}
	return append(out, ']'), nil
}

// refuse ends the start, with the place outside of this package that has asked for what is wrong.
func refuse(format string, arguments ...any) {
	place := ""
	var callers [16]uintptr
	frames := runtime.CallersFrames(callers[:runtime.Callers(2, callers[:])])
	for more := true; more; {
		var frame runtime.Frame
		if frame, more = frames.Next(); !strings.HasPrefix(frame.Function, "styx.") {
			place = fmt.Sprintf("%s:%d: ", path.Base(frame.File), frame.Line)
			break
		}
	}
	panic("styx: " + place + fmt.Sprintf(format, arguments...))
}

// checkName refuses what the contract does not take as a name.
func checkName(what, name string) {
	valid := len(name) > 0 && len(name) <= 64
	for i := 0; valid && i < len(name); i++ {
		letter := name[i]|0x20 >= 'a' && name[i]|0x20 <= 'z'
		valid = letter || i > 0 && (name[i] >= '0' && name[i] <= '9' || name[i] == '_' || name[i] == '-')
	}
	if !valid {
		refuse("%q is no name of a %s: a letter, then letters, digits, _ and -, at most 64", name, what)
	}
}
