package jsonpatch_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	reference "gopkg.in/evanphx/json-patch.v4"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/internal/jsonpatch"
)

// FuzzApply compares Apply with the API server's own applier: same tree or error, and an
// effective patch that gives the same tree there.
func FuzzApply(f *testing.F) {
	f.Add([]byte("abcdefghijklmnopqrstuvwxyz"))
	f.Add([]byte{1, 2, 3, 0, 0, 0, 9, 9, 9, 4, 4, 200, 100, 50, 25, 12})
	f.Add(bytes.Repeat([]byte{7, 3, 250, 11, 90, 31}, 40))
	f.Fuzz(func(t *testing.T, data []byte) {
		s := &script{data: data}
		tree := s.object(3)
		patch := s.patch()
		compare(t, tree, patch)
	})
}

// FuzzEditor compares an Editor, which changes its copies in place, with Apply: same trees
// and errors, and nothing that it returned or was given changes afterwards.
func FuzzEditor(f *testing.F) {
	f.Add([]byte("abcdefghijklmnopqrstuvwxyz"))
	f.Add(bytes.Repeat([]byte{7, 3, 250, 11, 90, 31}, 40))
	f.Fuzz(compareEditor)
}

func TestEditorLikeApply(t *testing.T) {
	t.Parallel()
	state := uint32(7)
	for range 3000 {
		data := make([]byte, 300)
		for i := range data {
			state = state*1664525 + 1013904223
			data[i] = byte(state >> 24)
		}
		compareEditor(t, data)
	}
}

func compareEditor(t *testing.T, data []byte) {
	t.Helper()
	s := &script{data: data}
	tree := s.object(3)
	before := encode(t, tree)
	e, want := jsonpatch.NewEditor(tree), tree
	var effects []usher.Patch
	var effectTexts []string
	for range 8 {
		patch := s.patch()[:1]
		if value, ok := e.Tree()[s.key()]; ok && s.next(4) == 0 {
			// As a program does that copies part of the object.
			patch = append(usher.Patch{{Op: "add", Path: "/" + pick(s, "a", "b"), Value: value}}, patch...)
		}
		text := encode(t, patch)
		result, wantEffect, wantErr := jsonpatch.Apply(want, decodePatch(t, string(text)))
		effect, err := e.Append(nil, patch)
		if fmt.Sprint(err) != fmt.Sprint(wantErr) {
			t.Fatalf("%s with %s: error %v, Apply gives %v", encode(t, want), text, err, wantErr)
		}
		if err != nil {
			// An Editor is of no more use then.
			e = jsonpatch.NewEditor(want)
			continue
		}
		want = result
		if got := encode(t, e.Tree()); string(got) != string(encode(t, want)) {
			t.Fatalf("%s: got %s, Apply gives %s", text, got, encode(t, want))
		}
		if got := encode(t, effect); string(got) != string(encode(t, wantEffect)) {
			t.Fatalf("%s: effective %s, of Apply %s", text, got, encode(t, wantEffect))
		}
		effects, effectTexts = append(effects, effect), append(effectTexts, string(encode(t, effect)))
	}
	for i := range effects {
		if got := string(encode(t, effects[i])); got != effectTexts[i] {
			t.Fatalf("an effective patch changed from %s to %s", effectTexts[i], got)
		}
	}
	if after := encode(t, tree); !bytes.Equal(before, after) {
		t.Fatalf("the input changed from %s to %s", before, after)
	}
}

func TestApplyLikeReference(t *testing.T) {
	t.Parallel()
	state := uint32(1)
	for range 3000 {
		data := make([]byte, 200)
		for i := range data {
			state = state*1664525 + 1013904223
			data[i] = byte(state >> 24)
		}
		s := &script{data: data}
		compare(t, s.object(3), s.patch())
	}
}

// compareEffect compares Effect with Apply: the same operations or error, and the same work is told to a meter.
func compareEffect(t *testing.T, tree map[string]any, patch, want usher.Patch, wantErr error) {
	t.Helper()
	var told [2]record
	before := encode(t, tree)
	got, err := jsonpatch.Effect(tree, patch, &told[0])
	if fmt.Sprint(err) != fmt.Sprint(wantErr) || err == nil && string(encode(t, got)) != string(encode(t, want)) {
		t.Fatalf("%s with %s: Effect gives %s, %v, Apply %s, %v", before, encode(t, patch), encode(t, got), err, encode(t, want), wantErr)
	}
	if after := encode(t, tree); !bytes.Equal(before, after) {
		t.Fatalf("Effect changed the input from %s to %s", before, after)
	}
	if _, _, err = jsonpatch.ApplyWithin(tree, patch, &told[1]); err == nil && !slices.Equal(told[0], told[1]) {
		t.Fatalf("%s with %s: Effect takes %v, ApplyWithin %v", before, encode(t, patch), told[0], told[1])
	}
}

// A record is a meter that keeps what it is told.
type record []int

func (r *record) Take(copied, touched int) error {
	*r = append(*r, copied, touched)
	return nil
}

func compare(t *testing.T, tree map[string]any, patch usher.Patch) {
	t.Helper()
	for _, op := range patch {
		if _, object := op.Value.(map[string]any); op.Op == "replace" && op.Path == "" && !object {
			return // the reference lets an object become an array
		}
	}
	before := encode(t, tree)
	want, wantErr := applyReference(before, encode(t, patch))
	if wantErr != nil && strings.HasPrefix(wantErr.Error(), "panic") {
		return
	}
	got, effective, err := jsonpatch.Apply(tree, patch)
	compareEffect(t, tree, patch, effective, err)
	if err != nil && wantErr == nil && transfers(patch) && strings.Contains(err.Error(), "doc is missing from path") {
		return // the reference copies what is not there, as null
	}
	if (err != nil) != (wantErr != nil) || !transfers(patch) && errors.Is(err, jsonpatch.ErrTest) != errors.Is(wantErr, reference.ErrTestFailed) {
		t.Fatalf("%s with %s: error %v, reference %v", before, encode(t, patch), err, wantErr)
	}
	if after := encode(t, tree); !bytes.Equal(before, after) {
		t.Fatalf("the input changed from %s to %s", before, after)
	}
	if err != nil {
		if !transfers(patch) && err.Error() != wantErr.Error() {
			t.Fatalf("error %q, reference %q", err, wantErr)
		}
		return
	}
	if diff := cmp.Diff(string(canonical(t, want)), string(encode(t, got))); diff != "" {
		t.Fatalf("%s with %s (-reference +got):\n%s", before, encode(t, patch), diff)
	}
	again, err := applyStrictly(decodeTree(t, string(before)), decodePatch(t, string(encode(t, effective))))
	if err != nil {
		t.Fatalf("effective patch %s of %s: %v", encode(t, effective), encode(t, patch), err)
	}
	if diff := cmp.Diff(string(canonical(t, want)), string(encode(t, again))); diff != "" {
		t.Fatalf("effective patch %s (-want +got):\n%s", encode(t, effective), diff)
	}
}

// transfers reports whether a patch copies or moves, of which errors are told in our own words.
func transfers(patch usher.Patch) bool {
	return slices.ContainsFunc(patch, func(op usher.PatchOp) bool { return op.Op == "copy" || op.Op == "move" })
}

// applyStrictly is RFC 6902 to the letter, for add, remove and replace.
func applyStrictly(doc any, patch usher.Patch) (any, error) {
	for _, op := range patch {
		var err error
		if doc, err = strict(doc, op.Path, op); err != nil {
			return nil, fmt.Errorf("%s %s: %w", op.Op, op.Path, err)
		}
	}
	return doc, nil
}

func strict(node any, path string, op usher.PatchOp) (any, error) {
	if path == "" && op.Op == "replace" {
		return op.Value, nil
	}
	head, rest, _ := strings.Cut(strings.TrimPrefix(path, "/"), "/")
	last := !strings.Contains(path[1:], "/")
	key := strings.NewReplacer("~1", "/", "~0", "~").Replace(head)
	switch n := node.(type) {
	case map[string]any:
		old, exists := n[key]
		switch {
		case !exists && !(last && op.Op == "add"):
			return nil, fmt.Errorf("no member %q", key)
		case !last:
			value, err := strict(old, "/"+rest, op)
			n[key] = value
			return n, err
		case op.Op == "remove":
			delete(n, key)
		default:
			n[key] = op.Value
		}
		return n, nil
	case []any:
		if key == "-" && last && op.Op == "add" {
			return append(n, op.Value), nil
		}
		i, err := strconv.Atoi(key)
		if err != nil || strconv.Itoa(i) != key || i < 0 || i > len(n) || i == len(n) && !(last && op.Op == "add") {
			return nil, fmt.Errorf("no element %q", key)
		}
		switch {
		case !last:
			n[i], err = strict(n[i], "/"+rest, op)
		case op.Op == "add":
			n = slices.Insert(n, i, op.Value)
		case op.Op == "remove":
			n = slices.Delete(n, i, i+1)
		default:
			n[i] = op.Value
		}
		return n, err
	}
	return nil, errors.New("no container")
}

func applyReference(doc, ops []byte) (result []byte, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("panic: %v", r)
		}
	}()
	patch, err := reference.DecodePatch(ops)
	if err != nil {
		return nil, err
	}
	return patch.Apply(doc)
}

func encode(t *testing.T, value any) []byte {
	t.Helper()
	if p, ok := value.(usher.Patch); ok && p == nil {
		return []byte("[]")
	}
	text, err := json.Marshal(value)
	if err != nil {
		t.Fatalf("encode %v: %v", value, err)
	}
	return text
}

func canonical(t *testing.T, text []byte) []byte {
	t.Helper()
	return encode(t, decodeTree(t, string(text)))
}

// A script turns bytes into trees and patches over few keys, so that they meet.
type script struct{ data []byte }

func (s *script) next(n int) int {
	if len(s.data) == 0 {
		return 0
	}
	b := s.data[0]
	s.data = s.data[1:]
	return int(b) % n
}

func (s *script) key() string { return pick(s, "a", "b", "x/y", "~", "~1", "", "0", "-1") }

func pick(s *script, words ...string) string { return words[s.next(len(words))] }

func (s *script) object(depth int) map[string]any {
	object := map[string]any{}
	for range s.next(4) {
		object[s.key()] = s.value(depth - 1)
	}
	return object
}

func (s *script) value(depth int) any {
	n := 10
	if depth <= 0 {
		n = 7
	}
	switch s.next(n) {
	case 0:
		return nil
	case 1:
		return "text <&>"
	case 2:
		return int64(s.next(3))
	case 3:
		return []float64{0.5, 1, 1e18, 1e21}[s.next(4)]
	case 4:
		return s.next(2) == 0
	case 5:
		return map[string]any{}
	case 6:
		return []any{}
	case 7:
		return s.object(depth)
	}
	array := []any{}
	for range s.next(4) {
		array = append(array, s.value(depth-1))
	}
	return array
}

func (s *script) patch() usher.Patch {
	patch := usher.Patch{}
	for range 1 + s.next(5) {
		op := usher.PatchOp{
			Op:   pick(s, "add", "add", "add", "replace", "replace", "remove", "remove", "test", "copy", "move", "odd"),
			Path: s.path(),
		}
		switch op.Op {
		case "remove":
		case "copy", "move":
			op.From = s.path()
		default:
			op.Value = s.value(2)
		}
		patch = append(patch, op)
	}
	return patch
}

func (s *script) path() string {
	var b strings.Builder
	for range s.next(4) {
		b.WriteString("/" + pick(s, "a", "b", "x~1y", "~0", "~01", "", "0", "1", "2", "-1", "-2", "-", "~2", "+0", "01", "99"))
	}
	if s.next(20) == 19 {
		return "x" + b.String()
	}
	return b.String()
}
