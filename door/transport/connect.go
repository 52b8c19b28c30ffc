package transport

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"

	"k8s.io/apimachinery/pkg/runtime/schema"

	usher "github.com/usher-dev/usher"
)

// A shape is the type of a URL parameter in an object.
type shape int

const (
	word shape = iota
	words
	flag
	numbers
)

// A connection is the options of a subresource for CONNECT. They are parameters of the URL; the
// path of a proxy is the rest of its path.
type connection struct {
	kind   string
	fields map[string]shape
}

var (
	streams     = map[string]shape{"stdin": flag, "stdout": flag, "stderr": flag, "tty": flag, "container": word}
	connections = map[string]connection{
		"pods/attach": {"PodAttachOptions", streams},
		"pods/exec": {"PodExecOptions", map[string]shape{
			"stdin": flag, "stdout": flag, "stderr": flag, "tty": flag, "container": word, "command": words,
		}},
		"pods/portforward": {"PodPortForwardOptions", map[string]shape{"ports": numbers}},
		"pods/proxy":       {"PodProxyOptions", nil},
		"services/proxy":   {"ServiceProxyOptions", nil},
		"nodes/proxy":      {"NodeProxyOptions", nil},
	}
)

// connect decides a CONNECT. It does not read the body, which is a stream.
func (x *exchange) connect() (*http.Response, error) {
	c := connections[x.target.resource.Resource+"/"+x.target.subresource]
	kind := schema.GroupVersionKind{Version: x.target.resource.Version, Kind: c.kind}
	r := x.question(usher.Connect, kind, nil)
	query := x.request.URL.Query()
	tree := map[string]any{"apiVersion": x.target.resource.Version, "kind": c.kind}
	for name, shape := range c.fields {
		if value := read(query[name], shape); value != nil {
			tree[name] = value
		}
	}
	if c.fields == nil && x.target.rest != "" {
		tree["path"] = "/" + x.target.rest
	}
	r.Object = usher.TreeObject(tree)
	changed, err := x.settle(r)
	if err != nil {
		return nil, err
	}
	if !changed {
		return x.pass()
	}
	if tree, err = r.Object.Tree(); err != nil {
		return nil, err
	}
	return x.send(x.reconnect(c, tree), x.request.Header, nil)
}

// reconnect is the URL of a CONNECT with the options in tree.
func (a *asked) reconnect(c connection, tree map[string]any) *url.URL {
	to := *a.request.URL
	if c.fields == nil {
		rest, _ := tree["path"].(string)
		at := to.Path[:len(to.Path)-len(a.target.rest)]
		for len(rest) > 0 && rest[0] == '/' && at[len(at)-1] == '/' {
			rest = rest[1:]
		}
		to.Path, to.RawPath = at+rest, ""
		return &to
	}
	query := to.Query()
	for name := range c.fields {
		query.Del(name)
		switch value := tree[name].(type) {
		case nil:
		case []any:
			for _, entry := range value {
				query.Add(name, fmt.Sprint(entry))
			}
		default:
			query.Set(name, fmt.Sprint(value))
		}
	}
	to.RawQuery = query.Encode()
	return &to
}

// read is the value of a parameter in an object, nil if it is missing.
func read(values []string, s shape) any {
	if len(values) == 0 {
		return nil
	}
	switch s {
	case flag:
		// As API servers parse them: anything but these is true.
		if no := []string{"false", "False", "FALSE", "0"}; slices.Contains(no, values[0]) {
			return nil
		}
		return true
	case word:
		return values[0]
	case words, numbers:
	}
	list := make([]any, 0, len(values))
	for _, value := range values {
		if number, err := strconv.ParseInt(value, 10, 32); s == numbers && err == nil {
			list = append(list, number)
		} else if s == words {
			list = append(list, value)
		}
	}
	return list
}
