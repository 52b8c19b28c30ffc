package interpret

import (
	"errors"
	"fmt"
	"net/url"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/usher-dev/usher/internal/convert/kyverno/jmespath"
	"github.com/usher-dev/usher/internal/convert/kyverno/syntax"
)

// entry returns the value of an entry of a context.
func (s *scope) entry(e *syntax.Entry) (any, error) {
	switch {
	case e.ConfigMap != nil:
		return s.configMap(e.ConfigMap)
	case e.Variable != nil:
		return s.variable(e.Variable)
	case e.APICall != nil && e.APICall.URLPath != "" && (e.APICall.Method == "" || e.APICall.Method == "GET"):
		return s.apiCall(e.APICall)
	default:
		return nil, &Unread{"the context entry " + e.Name}
	}
}

func (s *scope) plainText(text string) (string, error) {
	value, err := s.resolved(text)
	if err != nil {
		return "", err
	}
	result, ok := value.(string)
	if !ok {
		return "", errors.New("expected a text")
	}
	return result, nil
}

func (s *scope) configMap(c *syntax.ConfigMap) (any, error) {
	name, err := s.plainText(c.Name)
	if err != nil {
		return nil, err
	}
	namespace, err := s.plainText(c.Namespace)
	if err != nil {
		return nil, err
	}
	if s.namespace != "" && namespace == "" {
		namespace = s.namespace
	}
	if namespace == "" {
		namespace = "default"
	}
	for _, o := range s.request.Data {
		if kindOfObject(o).kind == "ConfigMap" && metadataText(o, "name") == name && metadataText(o, "namespace") == namespace {
			return map[string]any{"data": withDefault(o["data"]), "metadata": o["metadata"]}, nil
		}
	}
	return nil, fmt.Errorf("no ConfigMap %s/%s", namespace, name)
}

func withDefault(data any) any {
	if data == nil {
		return map[string]any{}
	}
	return data
}

// selected evaluates a path on a value.
func (s *scope) selected(path string, of any) (any, error) {
	node, err := jmespath.Parse(path)
	if err != nil {
		return nil, fmt.Errorf("read an expression: %w", err)
	}
	return s.evaluator.value(node, floats(of))
}

func (s *scope) variable(v *syntax.Variable) (any, error) {
	path, err := s.plainText(v.JMESPath)
	if err != nil {
		return nil, err
	}
	var otherwise any
	if v.Default != nil {
		if otherwise, err = s.resolved(v.Default.Of); err != nil {
			return nil, err
		}
	}
	result := otherwise
	switch {
	case v.Value != nil && v.Value.Of != nil:
		value, err := s.resolved(v.Value.Of)
		if err != nil {
			return nil, err
		}
		if path != "" {
			value, err = s.selected(path, value)
		}
		if err == nil {
			result = value
		} else if otherwise == nil || unread(err) {
			return nil, err
		}
	case path != "":
		value, err := s.query(path)
		if err == nil && value != nil {
			result = value
		} else if err != nil && (otherwise == nil || unread(err)) {
			return nil, err
		}
	}
	if result == nil {
		return nil, errors.New("a variable is null")
	}
	return result, nil
}

func unread(err error) bool {
	_, is := errors.AsType[*Unread](err)
	return is || errors.Is(err, errSteps)
}

func (s *scope) apiCall(c *syntax.APICall) (any, error) {
	var otherwise any
	at, err := s.plainText(c.URLPath)
	if err != nil {
		return nil, err
	}
	path, err := s.plainText(c.JMESPath)
	if err != nil {
		return nil, err
	}
	if c.Default != nil {
		if otherwise, err = s.resolved(c.Default.Of); err != nil {
			return nil, err
		}
	}
	value, err := Get(s.request.Data, at)
	if err != nil {
		if otherwise == nil || unread(err) {
			return nil, err
		}
		return otherwise, nil
	}
	if path == "" {
		return value, nil
	}
	value, err = s.selected(path, value)
	if err != nil && otherwise != nil && !unread(err) {
		return otherwise, nil
	}
	return value, err
}

// Get answers a GET of an API server in which some objects exist.
func Get(data []map[string]any, path string) (any, error) {
	at, err := url.Parse(path)
	if err != nil {
		return nil, fmt.Errorf("read a path: %w", err)
	}
	if at.Query().Has("fieldSelector") {
		return nil, &Unread{"a fieldSelector"}
	}
	selector, err := labels.Parse(at.Query().Get("labelSelector"))
	if err != nil {
		return nil, fmt.Errorf("read a selector: %w", err)
	}
	parts := strings.Split(strings.Trim(at.Path, "/"), "/")
	var of schema.GroupVersion
	switch {
	case len(parts) >= 3 && parts[0] == "api":
		of.Version, parts = parts[1], parts[2:]
	case len(parts) >= 4 && parts[0] == "apis":
		of.Group, of.Version, parts = parts[1], parts[2], parts[3:]
	default:
		return nil, &Unread{"GET " + path}
	}
	namespace := ""
	if len(parts) > 2 && parts[0] == "namespaces" {
		namespace, parts = parts[1], parts[2:]
	}
	items := []any{}
	for _, o := range data {
		gvk := kindOfObject(o)
		resource, _ := meta.UnsafeGuessKindToResource(schema.GroupVersionKind{Group: gvk.group, Version: gvk.version, Kind: gvk.kind})
		if resource != of.WithResource(parts[0]) || namespace != "" && metadataText(o, "namespace") != namespace {
			continue
		}
		if len(parts) > 1 && metadataText(o, "name") == parts[1] {
			return o, nil
		}
		if selector.Matches(labels.Set(metadataTexts(o, "labels"))) {
			items = append(items, o)
		}
	}
	if len(parts) > 1 {
		return nil, apierrors.NewNotFound(of.WithResource(parts[0]).GroupResource(), parts[1])
	}
	return map[string]any{"apiVersion": of.String(), "kind": "List", "metadata": map[string]any{}, "items": items}, nil
}
