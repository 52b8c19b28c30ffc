package assist

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"sync"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	"github.com/usher-dev/usher/api"
	"github.com/usher-dev/usher/deploy/crds"
)

// A field is what a policy can have at a path.
type field struct {
	// shape is what the value is, in words.
	shape    string
	text     string
	values   []string
	required []string
	// fields are those of a map with known keys, and items is what a list or a map with any keys has.
	fields map[string]*field
	items  *field
}

// deepest is the depth at which types are left.
const deepest = 16

// A catalog has the fields of the kinds of policies, each read once.
type catalog struct {
	mu    sync.Mutex
	kinds map[schema.GroupVersionKind]*field
}

// of returns what the policies of a kind have; nil if the kind is none of policies.
func (c *catalog) of(gvk schema.GroupVersionKind) *field {
	c.mu.Lock()
	defer c.mu.Unlock()
	if known, ok := c.kinds[gvk]; ok {
		return known
	}
	kind, ok := api.KindNamed(gvk)
	if !ok {
		return nil
	}
	root := ofType(reflect.TypeOf(kind.New()), 0)
	root.required = nil
	delete(root.fields, "status")
	if definition := definitionOf(&kind); definition != nil {
		root.add(definition)
	}
	if c.kinds == nil {
		c.kinds = map[schema.GroupVersionKind]*field{}
	}
	c.kinds[gvk] = root
	return root
}

// definitionOf returns the schema of a kind in its CustomResourceDefinition; nil if it has none.
func definitionOf(kind *api.Kind) *apiextensionsv1.JSONSchemaProps {
	text, err := crds.Of(kind.GroupVersionResource().GroupResource())
	if err != nil {
		return nil
	}
	var crd apiextensionsv1.CustomResourceDefinition
	if yaml.Unmarshal(text, &crd) != nil {
		return nil
	}
	for _, version := range crd.Spec.Versions {
		if version.Name == kind.Version {
			return version.Schema.OpenAPIV3Schema
		}
	}
	return nil
}

// documented is a type of the Kubernetes API, which knows what its fields are: "" is the type itself.
type documented interface{ SwaggerDoc() map[string]string }

// ofType returns what values of a Go type have.
func ofType(t reflect.Type, depth int) *field {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	f := &field{shape: shapeOf(t)}
	if texts, ok := reflect.TypeAssert[documented](reflect.Zero(t)); ok {
		f.text = texts.SwaggerDoc()[""]
	}
	if depth > deepest || reflect.PointerTo(t).Implements(reflect.TypeFor[json.Unmarshaler]()) {
		return f
	}
	switch t.Kind() {
	case reflect.Struct:
		f.fields = map[string]*field{}
		f.members(t, depth)
	case reflect.Slice, reflect.Map:
		f.items = ofType(t.Elem(), depth+1)
	default:
	}
	return f
}

func (f *field) members(t reflect.Type, depth int) {
	var texts map[string]string
	if has, ok := reflect.TypeAssert[documented](reflect.Zero(t)); ok {
		texts = has.SwaggerDoc()
	}
	for member := range t.Fields() {
		name, options, _ := strings.Cut(member.Tag.Get("json"), ",")
		switch {
		case name == "-" || !member.IsExported():
		case name == "" && (member.Anonymous || strings.Contains(options, "inline")):
			f.members(member.Type, depth)
		default:
			of := ofType(member.Type, depth+1)
			if texts[name] != "" {
				of.text = texts[name]
			}
			f.fields[name] = of
		}
	}
}

// shapeOf returns what a value of a Go type is, in the words of problems.
func shapeOf(t reflect.Type) string {
	switch t.Kind() {
	case reflect.Bool:
		return "true or false"
	case reflect.String:
		return "text"
	case reflect.Slice:
		if t.Elem().Kind() == reflect.Uint8 {
			return "anything"
		}
		return "a list"
	case reflect.Struct, reflect.Map:
		if reflect.PointerTo(t).Implements(reflect.TypeFor[json.Unmarshaler]()) {
			return "text"
		}
		return "a map"
	case reflect.Int, reflect.Int32, reflect.Int64, reflect.Float64:
		return "a number"
	default:
		return "anything"
	}
}

// add adds what a schema says.
func (f *field) add(s *apiextensionsv1.JSONSchemaProps) {
	if s.Description != "" {
		f.text = s.Description
	}
	if s.XPreserveUnknownFields != nil && *s.XPreserveUnknownFields {
		f.shape = "anything"
	}
	f.required = s.Required
	for _, value := range s.Enum {
		var text string
		if json.Unmarshal(value.Raw, &text) == nil && text != "" {
			f.values = append(f.values, text)
		}
	}
	for name := range s.Properties {
		property := s.Properties[name]
		if of := f.fields[name]; of != nil {
			of.add(&property)
		}
	}
	switch {
	case f.items == nil:
	case s.Items != nil && s.Items.Schema != nil:
		f.items.add(s.Items.Schema)
	case s.AdditionalProperties != nil && s.AdditionalProperties.Schema != nil:
		f.items.add(s.AdditionalProperties.Schema)
	}
}

// find returns the field with a path; nil if there is none.
func (f *field) find(path []string) *field {
	for _, name := range path {
		if f == nil {
			return nil
		}
		if next := f.fields[name]; next != nil || f.items == nil {
			f = next
			continue
		}
		f = f.items
	}
	return f
}

// allowed returns the values that a field can have, if they are known.
func (f *field) allowed() []string {
	if f.shape == "true or false" {
		return []string{"true", "false"}
	}
	return slices.Clone(f.values)
}
