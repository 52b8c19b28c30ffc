package transport

import (
	"net/http"

	usher "github.com/usher-dev/usher"
)

// create decides a POST.
func (x *exchange) create() (*http.Response, error) {
	tree, err := x.tree()
	if err != nil {
		return nil, err
	}
	return x.sendNew(tree)
}

// sendNew decides the creation of an object. Some resources create by PUT, too.
func (x *exchange) sendNew(tree map[string]any) (*http.Response, error) {
	r, err := x.creation(tree)
	if err != nil {
		return nil, err
	}
	changed, err := x.settle(r)
	if err != nil {
		return nil, err
	}
	return x.sendSettled(r, changed)
}

// sendSettled sends the client's own body if nothing was changed.
func (x *exchange) sendSettled(r *usher.Request, changed bool) (*http.Response, error) {
	if !changed {
		return x.pass()
	}
	tree, err := r.Object.Tree()
	if err != nil {
		return nil, err
	}
	return x.sendObject(mediaJSON, tree)
}

// update decides a PUT.
func (x *exchange) update() (*http.Response, error) {
	tree, err := x.tree()
	if err != nil {
		return nil, err
	}
	kind, err := kindOf(tree)
	if err != nil {
		return nil, err
	}
	if !x.concerns(kind, usher.Create, usher.Update) {
		return x.pass()
	}
	return x.conditionally(text(tree, "resourceVersion") == "", func(old map[string]any) (*http.Response, error) {
		if old == nil {
			return x.sendNew(tree)
		}
		r, err := x.change(old, tree, kind)
		if err != nil {
			return nil, err
		}
		changed, err := x.settle(r)
		if err != nil {
			return nil, err
		}
		version := text(old, "resourceVersion")
		if text(tree, "resourceVersion") != "" || version == "" {
			return x.sendSettled(r, changed)
		}
		settled, err := r.Object.Tree()
		if err != nil {
			return nil, err
		}
		return x.sendObject(mediaJSON, with(settled, "resourceVersion", version))
	})
}

// conditionally reads the object of the request and has it written on condition that it has not
// changed; after a conflict it retries, if the client set no condition itself. Old is nil if there
// is no object.
func (x *exchange) conditionally(retry bool, write func(old map[string]any) (*http.Response, error)) (*http.Response, error) {
	old, err := x.old()
	if err != nil {
		return nil, err
	}
	for attempt := 1; ; attempt++ {
		warned := len(x.warnings)
		response, err := write(old)
		if err != nil || response.StatusCode != http.StatusConflict || !retry || attempt == attempts {
			return response, err
		}
		next, err := x.old()
		if err != nil {
			discard(response)
			return nil, err
		}
		if text(next, "resourceVersion") == text(old, "resourceVersion") {
			return response, nil
		}
		discard(response)
		old, x.warnings = next, x.warnings[:warned]
	}
}

func discard(response *http.Response) { _ = response.Body.Close() }
