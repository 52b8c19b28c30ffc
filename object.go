package usher

import (
	"bytes"
	"errors"
	"fmt"
	"sync"

	"k8s.io/apimachinery/pkg/util/json"

	"github.com/usher-dev/usher/internal/jsontree"
)

// An Object is a JSON object, decoded when somebody first looks inside. A nil *Object
// stands for an absent one. It is safe for concurrent use.
type Object struct {
	raw  []byte
	tree map[string]any
	// bytes tells that the object came as raw, and outline what is known of that.
	bytes     bool
	skipIndex jsontree.SkipIndex

	decode    sync.Once
	decodeErr error
	encode    sync.Once
	encodeErr error
}

// RawObject returns the object in raw, which must not change any more, or nil when raw is
// empty or the JSON null.
func RawObject(raw []byte) *Object {
	if trimmed := bytes.TrimSpace(raw); len(trimmed) == 0 || bytes.Equal(trimmed, []byte("null")) {
		return nil
	}
	return &Object{raw: raw, bytes: true}
}

// PrescannedObject is [RawObject] for a JSON object of which something is known, so that it need
// not be checked again. It is for the doors of this module: programs use RawObject.
func PrescannedObject(raw []byte, skipIndex jsontree.SkipIndex) *Object {
	return &Object{raw: raw, bytes: true, skipIndex: skipIndex}
}

// TreeObject returns the object in tree, which must not change any more, or nil for a
// nil tree. Integers are int64 and other numbers float64, as Tree returns them.
func TreeObject(tree map[string]any) *Object {
	if tree == nil {
		return nil
	}
	return &Object{tree: tree}
}

// Tree returns the decoded object: maps, slices, strings, booleans, nil, and numbers as
// int64 or, when they are not integers, float64. It is shared: do not change it. The
// tree of a nil Object is nil.
func (o *Object) Tree() (map[string]any, error) {
	if o == nil {
		return nil, nil
	}
	o.decode.Do(func() {
		if o.tree != nil {
			return
		}
		tree, err := jsontree.SelectPrescanned(o.raw, jsontree.All(), o.skipIndex)
		if err != nil {
			o.decodeErr = fmt.Errorf("decode object: %w", err)
			return
		}
		o.tree = tree
	})
	return o.tree, o.decodeErr
}

// Part returns at least what lies at the paths, as Tree would. That is cheaper for an
// object that came as bytes, but nothing of it is kept. It fails where Tree does.
func (o *Object) Part(paths *Paths) (map[string]any, error) {
	if o == nil || !o.bytes || paths.Whole() {
		return o.Tree()
	}
	part, err := jsontree.SelectPrescanned(o.raw, paths.of(), o.skipIndex)
	if err != nil {
		return nil, fmt.Errorf("decode object: %w", err)
	}
	return part, nil
}

// Raw returns the object as JSON: the very bytes it came in, if it came as bytes. They
// are shared: do not change them.
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

// Into decodes the object into target, such as a *corev1.Pod. The names of fields are
// case-sensitive, as for an API server, and what target has no field for is left out.
// Whether the object is of the kind of target is for the caller to know: [Request] says
// it. A nil Object is an error.
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
