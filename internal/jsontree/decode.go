// Package jsontree decodes JSON objects into trees: maps, slices, strings, booleans, nil,
// and numbers as int64 or, when they are not integers, float64.
//
// The result is exactly that of k8s.io/apimachinery/pkg/util/json, several times as fast: of two
// values with one key the last wins, invalid UTF-8 is replaced by U+FFFD, and a number without a
// dot that fits is an int64. It can also skip values that are not read.
package jsontree

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unsafe"
)

// maxDepth is how deep values may be nested.
const maxDepth = 10000

// Decode returns the object in data, which must not change any more: the strings in the
// tree are parts of it.
func Decode(data []byte) (map[string]any, error) { return Select(data, all) }

// Select returns the values of the object in data at the paths, as if the rest did not exist. It
// fails where [Decode] fails, also because of the rest.
func Select(data []byte, paths *Paths) (map[string]any, error) {
	tree, _, err := SelectPrescanned(data, paths, SkipIndex{})
	return tree, err
}

// SelectPrescanned is Select for data with the index of [Prescan]. The size
// is at least that of the tree: of several values with one key all count.
func SelectPrescanned(data []byte, paths *Paths, skipIndex SkipIndex) (tree map[string]any, size Size, err error) {
	var members [16]member
	var items [16]any
	d := decoder{data: data, text: stringOf(data), SkipIndex: skipIndex, members: members[:0], items: items[:0]}
	if c := d.peek(); c != '{' {
		if err := d.value(); err != nil {
			return nil, Size{}, err
		}
		if err := d.end(); err != nil {
			return nil, Size{}, err
		}
		return nil, Size{}, fmt.Errorf("%s is not an object", clip(strings.TrimSpace(d.text)))
	}
	if tree, err = d.object(paths); err != nil {
		return nil, Size{}, err
	}
	return tree, d.size, d.end()
}

// stringOf returns data as a string, which shares its memory.
func stringOf(data []byte) string { return unsafe.String(unsafe.SliceData(data), len(data)) }

// clip shortens text that is quoted.
func clip(text string) string {
	const enough = 32
	if len(text) > enough {
		return strings.ToValidUTF8(text[:enough], "") + "…"
	}
	return text
}

var errRange = errors.New("a number is out of range")

// A decoder is at a position in a text.
type decoder struct {
	data []byte
	// text is data as a string, of which decoded strings are parts.
	text string
	at   int
	// SkipIndex is that of data. If it is sound, nothing need be checked. Parts that begin before
	// at may be missing.
	SkipIndex
	// depth is the number of containers around at.
	depth int
	// members and items are those of the incomplete containers around at.
	members []member
	items   []any
	// empty is the one empty map of the tree: managed fields have many.
	empty map[string]any
	// steps counts the values that were decoded, whose size is size.
	steps int
	size  Size
}

// interruptEvery is how many values are decoded between two questions whether to stop.
const interruptEvery = 4096

type member struct {
	key   string
	value any
}

// object reads the object that begins here.
func (d *decoder) object(paths *Paths) (map[string]any, error) {
	if err := d.enter(); err != nil {
		return nil, err
	}
	start := len(d.members)
	for more := d.peek() != '}'; more; {
		key, err := d.key()
		if err != nil {
			return nil, err
		}
		if inside := paths.field(key); inside == nil {
			err = d.value()
		} else {
			var value any
			if value, err = d.wanted(inside); err == nil {
				d.members = append(d.members, member{key, value})
			}
		}
		if err != nil {
			return nil, err
		}
		if more = d.peek() == ','; more {
			d.at++
			d.peek()
		}
	}
	if err := d.leave('}'); err != nil {
		return nil, err
	}
	members := d.members[start:]
	d.members = d.members[:start]
	d.size.container(len(members))
	if len(members) == 0 {
		if d.empty == nil {
			d.empty = map[string]any{}
		}
		return d.empty, nil
	}
	object := make(map[string]any, len(members))
	for _, m := range members {
		d.size.Total += len(m.key)
		object[m.key] = m.value
	}
	return object, nil
}

// array reads the array that begins here.
func (d *decoder) array(paths *Paths) ([]any, error) {
	if err := d.enter(); err != nil {
		return nil, err
	}
	inside := paths.element()
	start := len(d.items)
	for more := d.peek() != ']'; more; {
		value, err := d.wanted(inside)
		if err != nil {
			return nil, err
		}
		d.items = append(d.items, value)
		if more = d.peek() == ','; more {
			d.at++
		}
	}
	if err := d.leave(']'); err != nil {
		return nil, err
	}
	d.size.container(len(d.items) - start)
	array := append(make([]any, 0, len(d.items)-start), d.items[start:]...)
	d.items = d.items[:start]
	return array, nil
}

// wanted reads a value at some of whose paths values are selected.
func (d *decoder) wanted(paths *Paths) (any, error) {
	if d.steps++; d.steps%interruptEvery == 0 && d.interrupt != nil {
		if err := d.interrupt(); err != nil {
			return nil, err
		}
	}
	switch d.peek() {
	case '{':
		return d.object(paths)
	case '[':
		return d.array(paths)
	}
	value, err := d.scalar()
	d.size.scalar(value)
	return value, err
}

// scalar reads a value that has no others in it.
func (d *decoder) scalar() (any, error) {
	switch d.peek() {
	case '"':
		return d.string()
	case 't':
		return true, d.literal("true")
	case 'f':
		return false, d.literal("false")
	case 'n':
		return nil, d.literal("null")
	}
	return d.number()
}

// value steps over a value and checks it.
func (d *decoder) value() error {
	if d.sound {
		if c := d.peek(); (c != '{' && c != '[') || !d.leap() {
			d.at = pass(d.data, d.at)
		}
		return nil
	}
	end, sound, err := Check(d.data, d.at, maxDepth-d.depth)
	d.at = end
	if err == nil && !sound {
		err = errRange
	}
	return err
}

// leap skips the container that begins here, if the index knows its end.
func (d *decoder) leap() bool {
	for len(d.parts) > 0 && int(d.parts[0].start) < d.at {
		d.parts = d.parts[1:]
	}
	if len(d.parts) == 0 || int(d.parts[0].start) > d.at {
		return false
	}
	d.at = int(d.parts[0].end)
	return true
}

func (d *decoder) enter() error {
	if d.depth++; d.depth > maxDepth {
		return ErrTooDeep
	}
	d.at++
	return nil
}

func (d *decoder) leave(bracket byte) error {
	if d.peek() != bracket {
		return d.syntax("expected a comma or the end after a value")
	}
	d.at++
	d.depth--
	return nil
}

// peek steps over white space and returns the byte that follows, 0 at the end.
func (d *decoder) peek() byte {
	if d.at = Blank(d.data, d.at); d.at < len(d.data) {
		return d.data[d.at]
	}
	return 0
}

func (d *decoder) literal(word string) error {
	if !strings.HasPrefix(d.text[d.at:], word) {
		return d.syntax("expected a value")
	}
	d.at += len(word)
	return nil
}

func (d *decoder) end() error {
	if d.peek(); d.at < len(d.data) {
		return d.syntax("unexpected data after the value")
	}
	return nil
}

func (d *decoder) syntax(what string) error { return Syntax(d.data, d.at, what) }

// number reads a number.
func (d *decoder) number() (any, error) {
	start := d.at
	end, whole, err := number(d.data, start)
	if d.at = end; err != nil {
		return nil, err
	}
	text := d.text[start:end]
	if whole {
		if i, err := strconv.ParseInt(text, 10, 64); err == nil {
			return i, nil
		}
	}
	return float(text)
}

func float(text string) (any, error) {
	f, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return nil, fmt.Errorf("%w: %s", errRange, clip(text))
	}
	return f, nil
}
