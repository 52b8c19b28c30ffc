package prove

import "github.com/usher-dev/usher/internal/convert/kyverno/interpret"

// request returns a request of a user about an object in a namespace with labels. Bindings give all users their roles.
func (a *surroundings) request(operation string, object, old map[string]any, u interpret.User, namespace string, labels map[string]string) *interpret.Request {
	for _, o := range []map[string]any{object, old} {
		if metadata, _ := o["metadata"].(map[string]any); metadata["namespace"] != nil {
			metadata["namespace"] = namespace
		}
	}
	r := &interpret.Request{Operation: operation, Object: object, OldObject: old, NamespaceLabels: labels, User: interpret.User{Name: u.Name, Groups: u.Groups}}
	if namespace != "" {
		r.Data = append(r.Data, namespaceOf(namespace, labels))
	}
	for i := range a.users {
		r.Data = append(r.Data, a.users[i].Bindings()...)
	}
	return r
}

// requests makes requests about a kind: with good values, then with one other value, then with random ones.
func (g *generator) requests(of map[string]any, most int) []*interpret.Request {
	chosen, twice := make([]int, len(g.fields)), false
	build := func() map[string]any { return g.build(of, chosen, twice) }
	a := &g.surroundings
	user, namespace, labels := 0, 0, 0
	asked := func(operation string, object, old map[string]any) *interpret.Request {
		return a.request(operation, object, old, a.users[user], a.namespaces[namespace], a.labels[labels])
	}
	created := func(object map[string]any) *interpret.Request { return asked("CREATE", object, nil) }
	all := []*interpret.Request{created(cloned(of)), created(build())}
	for user = range a.users {
		all = append(all, created(build()))
	}
	user = 0
	if twice = g.doubles; twice {
		all = append(all, created(build()))
	}
	twice = false
	for namespace = range a.namespaces {
		all = append(all, created(build()))
	}
	namespace = 0
	for labels = range a.labels {
		all = append(all, created(build()))
	}
	labels = 0
	for i := range g.fields {
		for n := range g.fields[i].values {
			chosen[i] = n
			all = append(all, created(build()))
		}
		chosen[i] = 0
	}
	for len(all) < most {
		for i := range chosen {
			chosen[i] = g.random.IntN(len(g.fields[i].values))
		}
		twice = g.doubles && g.random.IntN(2) == 0
		user, namespace, labels = g.random.IntN(len(a.users)), g.random.IntN(len(a.namespaces)), g.random.IntN(len(a.labels))
		object := build()
		all = append(all, created(object))
		for i := range chosen {
			if g.random.IntN(2) == 0 {
				chosen[i] = g.random.IntN(len(g.fields[i].values))
			}
		}
		all = append(all, asked("UPDATE", renamed(build(), object), object))
	}
	return all
}

// build returns an object with chosen values.
func (g *generator) build(of map[string]any, chosen []int, twice bool) map[string]any {
	object := cloned(of)
	for i := range g.fields {
		if value := g.fields[i].values[chosen[i]]; value != (absent{}) {
			object = put(object, g.fields[i].path, value).(map[string]any)
		}
	}
	if object = g.complete(object); twice {
		object, _ = doubled(object).(map[string]any)
	}
	return object
}

// renamed returns an object with the name of another one: no update changes it.
func renamed(object, like map[string]any) map[string]any {
	metadata, _ := object["metadata"].(map[string]any)
	old, _ := like["metadata"].(map[string]any)
	if metadata != nil && old["name"] != nil {
		metadata["name"] = old["name"]
	}
	return object
}
