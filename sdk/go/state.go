package styx

import (
	"bytes"
	"fmt"
)

// State has the entities of the function's own operator: the own one, or by key any other (At). Values are JSON, so
// that functions in other languages and people can read them; the Raw forms are bytes as they are.
type State struct{ _ struct{} }

// Get reads the own entity into what value points to, and says whether it is there.
func (State) Get(value any) (bool, error) {
	if data, found, known := hostKnown(); known {
		return read(data, found, value, "")
	}
	mark := hostMark()
	data, found := hostGetOwn()
	found, err := read(data, found, value, "")
	hostRelease(mark)
	return found, err
}

// Require is Get, and an error if the entity is absent.
func (s State) Require(value any) error {
	found, err := s.Get(value)
	if err == nil && !found {
		err = fmt.Errorf("there is no %s %q", hostOperator(), hostKey())
	}
	return err
}

// Put writes the own entity.
func (State) Put(value any) error {
	data, err := appendAny(scratch(), value)
	if err != nil {
		return unwritable(hostKey(), err)
	}
	hostPutScratch(data)
	return nil
}

// Delete removes the own entity. Removing an absent one is no error.
func (State) Delete() { hostDeleteOwn() }

// GetAt is Get for another key of the operator.
func (State) GetAt(key string, value any) (bool, error) {
	mark := hostMark()
	data, found := hostGet(key)
	found, err := read(data, found, value, key)
	hostRelease(mark)
	return found, err
}

// PutAt is Put for another key of the operator.
func (State) PutAt(key string, value any) error {
	data, err := appendAny(scratch(), value)
	if err != nil {
		return unwritable(key, err)
	}
	hostPut(key, data)
	keepScratch(data)
	return nil
}

// DeleteAt is Delete for another key of the operator.
func (State) DeleteAt(key string) { hostDelete(key) }

// GetRaw is the own entity as bytes; false if it is absent.
func (State) GetRaw() ([]byte, bool) {
	mark := hostMark()
	data, found := hostGetOwn()
	return copied(mark, data), found
}

// PutRaw writes the own entity as bytes.
func (State) PutRaw(value []byte) { hostPutOwn(value) }

// GetRawAt is GetRaw for another key of the operator.
func (State) GetRawAt(key string) ([]byte, bool) {
	mark := hostMark()
	data, found := hostGet(key)
	return copied(mark, data), found
}

// PutRawAt is PutRaw for another key of the operator.
func (State) PutRawAt(key string, value []byte) { hostPut(key, value) }

// Range is a range of keys, in byte order. What is empty does not bound it.
type Range struct {
	// Prefix is what keys start with. With a declared key prefix, a scan of one prefix stays local.
	Prefix string
	// From and To bound the keys, and belong to the range; After and Before do not.
	From, After, To, Before string
	// Limit is the most entries that are read; 0 for as many as the limits of the app allow.
	Limit uint32
	// Reverse reads from the last key to the first. Then Before, not After, continues a page.
	Reverse bool
}

// Entry is a key with its value.
type Entry[T any] struct {
	Key   string
	Value T
}

// Scan reads entities of the function's own operator, in key order. The range is part of what the transaction has read:
// no other can slip an entity into it.
func Scan[T any](ctx *Context, within Range) ([]Entry[T], error) {
	mark := hostMark()
	defer hostRelease(mark)
	found := hostScan(&within)
	entries := make([]Entry[T], len(found))
	for i, each := range found {
		entries[i].Key = string(each.Key)
		if _, err := readStored(each.Value, &entries[i].Value); err != nil {
			return nil, fmt.Errorf("state of %q: %w", entries[i].Key, err)
		}
	}
	return entries, nil
}

// ScanRaw is Scan with values as bytes.
func ScanRaw(ctx *Context, within Range) []Entry[[]byte] {
	mark := hostMark()
	defer hostRelease(mark)
	found := hostScan(&within)
	entries := make([]Entry[[]byte], len(found))
	for i, each := range found {
		entries[i] = Entry[[]byte]{string(each.Key), bytes.Clone(each.Value)}
	}
	return entries
}

func read(data []byte, found bool, value any, key string) (bool, error) {
	if !found {
		return false, nil
	}
	migrated, err := readStored(data, value)
	switch {
	case err != nil:
		return false, unreadable(key, err)
	case migrated == nil || current.readOnly:
	case key == "":
		hostPutOwn(migrated)
	default:
		hostPut(key, migrated)
	}
	return true, nil
}

// unwritable is a bug of the app, not a refusal.
func unwritable(key string, err error) error {
	return &Failure{Code: codeGuestException, Message: fmt.Sprintf("state of %q: %v", key, err)}
}

func unreadable(key string, err error) error {
	if key == "" {
		key = hostKey()
	}
	return fmt.Errorf("state of %q: %w", key, err)
}

func copied(mark uint32, data []byte) []byte {
	data = bytes.Clone(data)
	hostRelease(mark)
	return data
}
