package convert

import (
	"context"
	"maps"
	"slices"

	usher "github.com/usher-dev/usher"
)

// mostReductions limits how many smaller objects are decided to find a small difference.
const mostReductions = 5000

// reduce returns a request that was decides as before and is as after, in which objects have only
// the fields that this takes.
func reduce(ctx context.Context, was, is usher.Decider, r *usher.Request, before, after verdict) *Difference {
	difference := &Difference{Request: r, Was: before.String(), Is: after.String()}
	Reduce(r, func(smaller *usher.Request) bool {
		first, err := decide(ctx, was, smaller)
		if err != nil || first.said != before.said {
			return false
		}
		second, err := decide(ctx, is, smaller)
		if err != nil || second.said != after.said || second == first {
			return false
		}
		difference = &Difference{Request: smaller, Was: first.String(), Is: second.String()}
		return true
	})
	return difference
}

// Reduce returns the request with the smallest objects that it finds for which same is true, as it is for r.
func Reduce(r *usher.Request, same func(*usher.Request) bool) *usher.Request {
	left := mostReductions
	for _, part := range []func(*usher.Request) **usher.Object{
		func(r *usher.Request) **usher.Object { return &r.Object },
		func(r *usher.Request) **usher.Object { return &r.OldObject },
	} {
		tree, err := (*part(r)).Tree()
		if err != nil || tree == nil {
			continue
		}
		smaller(tree, func(with any) bool {
			object, ok := with.(map[string]any)
			if left--; !ok || left < 0 {
				return false
			}
			request := *r
			*part(&request) = usher.TreeObject(object)
			if !same(&request) {
				return false
			}
			r = &request
			return true
		})
	}
	return r
}

// smaller calls try with copies of a tree without one field or element, and returns the smallest copy
// that it accepts.
func smaller(tree any, try func(any) bool) any {
	switch v := tree.(type) {
	case map[string]any:
		for _, name := range slices.Sorted(maps.Keys(v)) {
			if name == "apiVersion" || name == "kind" {
				continue
			}
			less := maps.Clone(v)
			delete(less, name)
			if try(less) {
				v = less
				continue
			}
			inside := smaller(v[name], func(with any) bool {
				less := maps.Clone(v)
				less[name] = with
				return try(less)
			})
			v = maps.Clone(v)
			v[name] = inside
		}
		return v
	case []any:
		for i := 0; i < len(v); i++ {
			if less := slices.Delete(slices.Clone(v), i, i+1); try(less) {
				v, i = less, i-1
				continue
			}
			inside := smaller(v[i], func(with any) bool {
				less := slices.Clone(v)
				less[i] = with
				return try(less)
			})
			v = slices.Clone(v)
			v[i] = inside
		}
		return v
	}
	return tree
}
