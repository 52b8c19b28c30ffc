package usher

import (
	"bytes"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/util/json"

	"github.com/usher-dev/usher/internal/jsontree"
)

// An Object is a JSON object that is decoded on first use. A nil *Object is an absent object. It is
// safe for concurrent use.
type Object struct {
	raw  []byte
	tree map[string]any
	// bytes reports that the object was made from raw, and outline what is known of raw.
	bytes     bool
	skipIndex jsontree.SkipIndex
	// keeps says that what was decoded last is kept, for evaluations that read the same.
	keeps bool
	kept  atomic.Pointer[selection]

	decode    sync.Once
	decoded   atomic.Bool
	decodeErr error
	encode    sync.Once
	encodeErr error
	measure   sync.Once
	// total and longest are the size of a tree, or of what has been decoded of raw.
	total, longest atomic.Int64
}

// A selection has at least the values at paths.
type selection struct {
	paths *Paths
	part  map[string]any
}

// RawObject returns the object in raw, which must not change any more, or nil when raw is
// empty or the JSON null.
func RawObject(raw []byte) *Object {
	if trimmed := bytes.TrimSpace(raw); len(trimmed) == 0 || bytes.Equal(trimmed, []byte("null")) {
		return nil
	}
	return &Object{raw: raw, bytes: true}
}

// Doors and audits of this module make objects that are not validated again; programs use RawObject.
func init() { //nolint:gochecknoinits // the API names no type of an internal package
	jsontree.NewObject = func(raw []byte, skipIndex jsontree.SkipIndex) any {
		return &Object{raw: raw, bytes: true, skipIndex: skipIndex}
	}
	jsontree.Undecoded = func(object any, raw []byte) any {
		again := &Object{raw: raw, bytes: true, keeps: true}
		if of, ok := object.(*Object); ok && of.bytes {
			again.skipIndex = of.skipIndex
			again.skipIndex.Interrupt(nil)
		}
		return again
	}
}

// TreeObject returns the object in tree, which must not change any more, or nil for a
// nil tree. Integers are int64 and other numbers float64, as Tree returns them.
func TreeObject(tree map[string]any) *Object {
	if tree == nil {
		return nil
	}
	return &Object{tree: tree}
}

// Tree returns the decoded object: maps, slices, strings, booleans, nil, and numbers as int64 or,
// when they are not integers, float64. It is shared: do not change it. The tree of a nil Object is
// nil.
func (o *Object) Tree() (map[string]any, error) {
	if o == nil {
		return nil, nil
	}
	o.decode.Do(func() {
		if o.tree != nil {
			return
		}
		if o.tree, o.decodeErr = o.selected(jsontree.All()); o.decodeErr == nil {
			o.decoded.Store(true)
		}
	})
	return o.tree, o.decodeErr
}

// Part returns at least the values at the paths, in the form of Tree. For an object that came as
// bytes it is cheaper than Tree, unless that was called before; the result is not kept. It fails where
// Tree fails.
func (o *Object) Part(paths *Paths) (map[string]any, error) {
	if o == nil || !o.bytes || paths.Whole() || o.decoded.Load() {
		return o.Tree()
	}
	if kept := o.kept.Load(); kept != nil && paths.Within(kept.paths) {
		return kept.part, nil
	}
	part, err := o.selected(paths.of())
	if err == nil && o.keeps {
		o.kept.Store(&selection{paths, part})
	}
	return part, err
}

// selected decodes the values at paths.
func (o *Object) selected(paths *jsontree.Paths) (map[string]any, error) {
	part, size, err := jsontree.SelectPrescanned(o.raw, paths, o.skipIndex)
	if err != nil {
		return nil, fmt.Errorf("decode object: %w", err)
	}
	grow(&o.total, size.Total)
	grow(&o.longest, size.Longest)
	return part, nil
}

// grow makes n at least value.
func grow(n *atomic.Int64, value int) {
	for {
		was := n.Load()
		if int64(value) <= was || n.CompareAndSwap(was, int64(value)) {
			return
		}
	}
}

// AppendPart appends JSON of exactly the values at the paths, which are what Part returns at least. For
// an object that came as bytes it copies their text, without decoding it. It fails where Tree fails.
func (o *Object) AppendPart(to []byte, paths *Paths) ([]byte, error) {
	if o == nil {
		return to, errors.New("decode object: the request has none")
	}
	raw, err := o.Raw()
	if err != nil {
		return to, err
	}
	part, err := jsontree.AppendPart(to, raw, paths.of(), o.skipIndex)
	if err != nil {
		return to, fmt.Errorf("decode object: %w", err)
	}
	return part, nil
}

// Raw returns the object as JSON: the original bytes, if it was made from bytes. They are shared:
// do not change them.
func (o *Object) Raw() ([]byte, error) {
	if o == nil {
		return nil, nil
	}
	o.encode.Do(func() {
		if o.raw != nil {
			return
		}
		if o.raw, o.encodeErr = json.Marshal(o.tree); o.encodeErr != nil {
			o.encodeErr = fmt.Errorf("encode object: %w", o.encodeErr)
		}
	})
	return o.raw, o.encodeErr
}

// Size returns at least the number of characters of all texts and keys in the object, and one for
// each value and each entry: it bounds what evaluating the object can take. It is 0 for a nil
// Object.
func (o *Object) Size() int {
	if o == nil {
		return 0
	}
	if o.bytes {
		return len(o.raw)
	}
	total, _ := o.DecodedSize()
	return total
}

// DecodedSize returns at least the size, as Size counts it, of each of the trees that Tree and Part have
// returned so far, and the length of the longest list or map in them. Both are 0 for a nil Object.
func (o *Object) DecodedSize() (total, longest int) {
	if o == nil {
		return 0, 0
	}
	if !o.bytes {
		o.measure.Do(func() {
			size := jsontree.SizeOf(o.tree)
			grow(&o.total, size.Total)
			grow(&o.longest, size.Longest)
		})
	}
	return int(o.total.Load()), int(o.longest.Load())
}

// Into decodes the object into target, such as a *corev1.Pod. The names of fields are
// case-sensitive, as for an API server, and fields unknown to target are ignored. Into does not
// check the kind of the object; see [Request]. A nil Object is an error.
func (o *Object) Into(target any) error {
	if o == nil {
		return errors.New("decode object: the request has none")
	}
	raw, err := o.Raw()
	if err != nil {
		return err
	}
	if err := json.Unmarshal(raw, target); err != nil {
		return fmt.Errorf("decode object: %w", err)
	}
	return nil
}
