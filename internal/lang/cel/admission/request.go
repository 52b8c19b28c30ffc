package admission

import (
	"cmp"

	"github.com/google/cel-go/common/types"
	"k8s.io/apimachinery/pkg/runtime/schema"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/internal/lang/cel"
)

var (
	requestFields = []string{
		"uid", "kind", "resource", "requestKind", "requestResource", "operation", "userInfo", "object", "oldObject", "dryRun", "options",
		"subResource", "requestSubResource", "name", "namespace",
	}
	kindFields     = []string{"group", "version", "kind"}
	resourceFields = []string{"group", "version", "resource"}
	userFields     = []string{"username", "uid", "groups", "extra"}
)

// requestView is the variable request: an AdmissionRequest without its objects, as JSON. Fields
// without a value are absent.
func (in *Input) requestView(asConditions bool) *cel.Record {
	views := &in.memo().views
	view := &views[0]
	if asConditions {
		view = &views[1]
	}
	if *view == nil {
		r := in.Request
		*view = &cel.Record{Names: requestFields, Field: func(name string) (any, bool) { return requestField(r, name, asConditions) }}
	}
	return *view
}

func requestField(r *usher.Request, name string, asConditions bool) (any, bool) {
	switch name {
	case "uid":
		return "", true
	case "kind":
		return kindView(r.Kind), true
	case "resource":
		if asConditions {
			return resourceView(requestedResource(r)), true
		}
		return resourceView(r.Resource), true
	case "requestKind":
		if r.Requested.Empty() {
			return kindView(r.Kind), true
		}
		return kindView(r.Requested), true
	case "requestResource":
		return resourceView(requestedResource(r)), true
	case "operation":
		return string(r.Operation), true
	case "userInfo":
		return userView(&r.User), true
	case "object", "oldObject":
		return nil, true
	case "dryRun":
		return r.DryRun, true
	case "options":
		if options, err := r.Options.Tree(); err == nil && options != nil {
			return options, true
		}
		return nil, true
	case "subResource", "requestSubResource":
		return present(r.Subresource)
	case "name":
		return present(r.Name)
	case "namespace":
		return present(r.Namespace)
	}
	return nil, false
}

func present(text string) (any, bool) { return text, text != "" }

func requestedResource(r *usher.Request) schema.GroupVersionResource {
	if r.Requested.Empty() {
		return r.Resource
	}
	return cmp.Or(r.RequestedResource, r.Resource)
}

func kindView(k schema.GroupVersionKind) *cel.Record {
	return &cel.Record{Names: kindFields, Field: func(name string) (any, bool) {
		switch name {
		case "group":
			return k.Group, true
		case "version":
			return k.Version, true
		case "kind":
			return k.Kind, true
		}
		return nil, false
	}}
}

func resourceView(r schema.GroupVersionResource) *cel.Record {
	return &cel.Record{Names: resourceFields, Field: func(name string) (any, bool) {
		switch name {
		case "group":
			return r.Group, true
		case "version":
			return r.Version, true
		case "resource":
			return r.Resource, true
		}
		return nil, false
	}}
}

func userView(u *usher.User) *cel.Record {
	return &cel.Record{Names: userFields, Field: func(name string) (any, bool) {
		switch name {
		case "username":
			return present(u.Name)
		case "uid":
			return present(u.UID)
		case "groups":
			return types.NewStringList(types.DefaultTypeAdapter, u.Groups), len(u.Groups) > 0
		case "extra":
			extra := make(map[string]any, len(u.Extra))
			for key, values := range u.Extra {
				extra[key] = types.NewStringList(types.DefaultTypeAdapter, values)
			}
			return extra, len(extra) > 0
		}
		return nil, false
	}}
}

// requestSize returns the size of the variable request, of which the values at paths are read.
func (in *Input) requestSize(paths [][]string) cel.Size {
	known := in.memo()
	s := known.ofRequest.get(in.measureRequest)
	for _, path := range paths {
		if len(path) == 0 || path[0] == "options" {
			return s.Plus(known.ofOptions.get(in.measureOptions))
		}
	}
	return s
}

func (in *Input) measureOptions() cel.Size {
	options, err := in.Request.Options.Tree()
	if err != nil {
		return cel.Size{}
	}
	return cel.SizeOf(options)
}

// measureRequest returns the size of the variable request without options.
func (in *Input) measureRequest() cel.Size {
	var s cel.Size
	r := in.Request
	for _, text := range []string{
		r.Kind.Group, r.Kind.Version, r.Kind.Kind, r.Requested.Group, r.Requested.Version, r.Requested.Kind, r.Resource.Group, r.Resource.Version,
		r.Resource.Resource, r.RequestedResource.Group, r.RequestedResource.Version, r.RequestedResource.Resource,
		string(r.Operation), r.User.Name, r.User.UID, r.Subresource, r.Name, r.Namespace,
	} {
		// Some of them occur twice.
		s.Total += 2 * len(text)
	}
	// That of all keys.
	s.Total, s.Longest = s.Total+512, max(s.Longest, len(requestFields))
	addTexts(&s, r.User.Groups)
	for key, values := range r.User.Extra {
		s.Total += 2 + len(key)
		addTexts(&s, values)
	}
	s.Longest = max(s.Longest, len(r.User.Extra))
	return s
}

func addTexts(s *cel.Size, texts []string) {
	s.Longest = max(s.Longest, len(texts))
	for _, text := range texts {
		s.Total += 2 + len(text)
	}
}
