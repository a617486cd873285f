//go:build !wasip1

package styx

import "styx/internal/host"

func init() {
	host.Functions = func() []host.Function {
		var functions []host.Function
		for _, o := range operators {
			for _, f := range o.functions {
				functions = append(functions, host.Function{Operator: o.name, Name: f.name, ReadOnly: f.readOnly})
			}
		}
		return functions
	}
	host.Invoke = func(function, key string, arguments []byte) ([]byte, *host.Failure) {
		reply, failure := invoke(function, key, arguments, nil)
		if failure != nil {
			return nil, (*host.Failure)(failure)
		}
		return reply, nil
	}
}

func running() host.Host {
	if host.Current == nil {
		panic("styx: no transaction is running: call functions through styxtest.App")
	}
	return host.Current
}

func scratch() []byte       { return nil }
func keepScratch([]byte)    {}
func keepReader(*reader)    {}
func hostMark() uint32      { return 0 }
func hostRelease(uint32)    {}
func hostApp() string       { return running().App() }
func hostOperator() string  { return running().Operator() }
func hostKey() string       { return running().Key() }
func hostTID() uint64       { return running().TID() }
func hostRequestID() string { return running().RequestID() }
func hostTime() uint64      { return running().Time() }
func hostRandom() uint64    { return running().Random() }

func contextOf(key string, f *function) *Context { return &Context{key: key, function: f} }

func takeReader(data []byte) *reader { return &reader{data: data} }

func kept(data []byte) string { return string(data) }

func hostLog(level Level, message string)         { running().Log(uint8(level), message) }
func hostGet(key string) ([]byte, bool)           { return running().Get(key) }
func hostPut(key string, value []byte)            { running().Put(key, value) }
func hostDelete(key string)                       { running().Delete(key) }
func hostGetOwn() ([]byte, bool)                  { return running().Get(hostKey()) }
func hostKnown() (data []byte, found, known bool) { return nil, false, false }
func hostPutOwn(value []byte)                     { running().Put(hostKey(), value) }
func hostPutScratch(value []byte)                 { running().Put(hostKey(), value) }
func hostDeleteOwn()                              { running().Delete(hostKey()) }
func hostScan(within *Range) []host.Entry         { return running().Scan(host.Range(*within)) }

func hostCall(operator, key, function string, arguments []byte) ([]byte, error) {
	reply, failure := running().Call(operator, key, function, arguments)
	if failure != nil {
		return nil, (*Failure)(failure)
	}
	return reply, nil
}

func hostCallAsync(operator, key, function string, arguments []byte) {
	running().CallAsync(operator, key, function, arguments)
}
