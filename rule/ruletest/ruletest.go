// Package ruletest has helpers for tests of programs.
package ruletest

import (
	"context"
	"fmt"
	"reflect"
	"testing"

	"github.com/google/go-cmp/cmp"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/rule"
)

// Run runs a program. If it is a [rule.Selective], it must have the same result with the paths that
// it reads alone.
func Run(t testing.TB, p rule.Program, in *rule.Input) (rule.Outcome, error) {
	t.Helper()
	outcome, err := p.Run(context.Background(), in)
	selective, ok := p.(rule.Selective)
	if !ok {
		return outcome, err
	}
	part := *in
	object, old := selective.ReadPaths()
	part.Object, part.OldObject = partOf(t, in.Object, object), partOf(t, in.OldObject, old)
	again, againErr := p.Run(context.Background(), &part)
	if fmt.Sprint(err) != fmt.Sprint(againErr) {
		t.Errorf("%s: error %v, but %v with the read paths of %v", p, err, againErr, in.Object)
	}
	if diff := cmp.Diff(outcome, again); diff != "" {
		t.Errorf("%s: with all of %v, and with its read paths: -all +part:\n%s", p, in.Object, diff)
	}
	return outcome, err
}

// partOf returns the values at the paths, or all of a tree that does not survive JSON: 1.0 becomes
// 1.
func partOf(t testing.TB, tree map[string]any, paths *usher.Paths) map[string]any {
	t.Helper()
	if tree == nil {
		return nil
	}
	raw, err := usher.TreeObject(tree).Raw()
	if err != nil {
		return tree
	}
	if again, err := usher.RawObject(raw).Tree(); err != nil || !reflect.DeepEqual(tree, again) {
		return tree
	}
	part, err := usher.RawObject(raw).Part(paths)
	if err != nil {
		t.Fatal(err)
	}
	return part
}
