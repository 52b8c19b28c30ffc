package interpret

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"path"
	"regexp"
	"strings"

	"github.com/usher-dev/usher/internal/convert/kyverno/jmespath"
	"github.com/usher-dev/usher/internal/convert/kyverno/syntax"
)

// A scope has what expressions read.
type scope struct {
	request *Request
	values  map[string]any
	// entries are loaded when an expression names them.
	entries []syntax.Entry
	// namespace is that of the policy.
	namespace string
	deleted   bool
	evaluator *evaluator
}

func newScope(r *Request, asking *User, namespace string) *scope {
	s := &scope{request: r, namespace: namespace, evaluator: &evaluator{left: steps}, deleted: r.Operation == "DELETE"}
	gvk := kindOfObject(r.subject())
	user := asking.Name
	of := map[string]any{
		"operation": r.Operation, "kind": map[string]any{"group": gvk.group, "version": gvk.version, "kind": gvk.kind},
		"name": metadataText(r.subject(), "name"), "namespace": metadataText(r.subject(), "namespace"),
		"userInfo": map[string]any{"username": user, "groups": anys(asking.Groups)}, "object": nil, "oldObject": nil,
		"roles": anys(asking.Roles), "clusterRoles": anys(asking.ClusterRoles),
	}
	if gvk.kind == "Namespace" {
		of["namespace"] = of["name"]
	}
	if r.Subresource != "" {
		of["subResource"] = r.Subresource
	}
	account := strings.Split(strings.TrimPrefix(user, "system:serviceaccount:"), ":")
	name, in := "", ""
	if len(account) >= 2 && strings.HasPrefix(user, "system:serviceaccount:") {
		in, name = account[0], account[1]
	}
	s.values = map[string]any{"request": of, "serviceAccountName": name, "serviceAccountNamespace": in}
	if all := images(r.Object); len(all) > 0 {
		s.values["images"] = all
	}
	s.look(r.Object, r.OldObject)
	return s
}

// look sets the objects that expressions read.
func (s *scope) look(object, old map[string]any) {
	request, _ := s.values["request"].(map[string]any)
	request = maps.Clone(request)
	request["object"], request["oldObject"] = nil, nil
	if object != nil {
		request["object"] = floats(object)
	}
	if old != nil {
		request["oldObject"] = floats(old)
	}
	s.values["request"] = request
}

// within returns a scope with more values and entries.
func (s *scope) within(more map[string]any, entries []syntax.Entry) *scope {
	inner := *s
	inner.values = maps.Clone(s.values)
	maps.Copy(inner.values, more)
	inner.entries = append(append([]syntax.Entry{}, s.entries...), entries...)
	return &inner
}

// query evaluates an expression, with the entries that it names.
func (s *scope) query(text string) (any, error) {
	if err := s.load(text); err != nil {
		return nil, err
	}
	node, err := jmespath.Parse(text)
	if err != nil {
		return nil, fmt.Errorf("read an expression: %w", err)
	}
	return s.evaluator.value(node, s.values)
}

// load loads the entries that a text names.
func (s *scope) load(text string) error {
	for i := 0; i < len(s.entries); i++ {
		e := s.entries[i]
		named, err := regexp.MatchString(`(?:\A|\z|\s|[^.0-9A-Za-z])`+regexp.QuoteMeta(e.Name)+`\b`, text)
		if err != nil || !named {
			continue
		}
		// What it reads itself are the entries before it.
		later := append([]syntax.Entry{}, s.entries[i+1:]...)
		s.entries = s.entries[:i:i]
		value, err := s.entry(&e)
		if err != nil {
			s.entries = append(append(s.entries, e), later...)
			return err
		}
		i = len(s.entries) - 1
		s.entries = append(s.entries, later...)
		s.values[e.Name] = floats(value)
	}
	return nil
}

var (
	variable  = regexp.MustCompile(`(^|[^\\])(\{\{(?:\{[^{}]*\}|[^{}])*\}\})`)
	reference = regexp.MustCompile(`(^|[^\\])(\$\(.[^ ]*\))`)
)

// resolved returns a document with its variables and references replaced.
func (s *scope) resolved(document any) (any, error) {
	return s.replaced(document, document, "")
}

func (s *scope) replaced(of, document any, at string) (any, error) {
	switch v := of.(type) {
	case map[string]any:
		all := make(map[string]any, len(v))
		for key, value := range v {
			name, err := s.text(key, document, at)
			if err != nil {
				return nil, err
			}
			if all[fmt.Sprint(name)], err = s.replaced(value, document, at+"/"+key); err != nil {
				return nil, err
			}
		}
		return all, nil
	case []any:
		all := make([]any, len(v))
		for i := range v {
			var err error
			if all[i], err = s.replaced(v[i], document, fmt.Sprintf("%s/%d", at, i)); err != nil {
				return nil, err
			}
		}
		return all, nil
	case string:
		value, err := s.text(v, document, at)
		if err != nil {
			return nil, err
		}
		return s.inside(value, 0)
	default:
		return of, nil
	}
}

// inside returns what a variable is, with the variables in the texts of a map or list replaced, too.
func (s *scope) inside(value any, depth int) (any, error) {
	if depth > rounds {
		return nil, errors.New("variables in variables without an end")
	}
	next := func(v any) (any, error) {
		if text, ok := v.(string); ok {
			var err error
			if v, err = s.variables(text); err != nil {
				return nil, err
			}
		}
		return s.inside(v, depth+1)
	}
	var err error
	switch v := value.(type) {
	case map[string]any:
		all := make(map[string]any, len(v))
		for key, each := range v {
			name, err := s.variables(key)
			if err != nil {
				return nil, err
			}
			if all[fmt.Sprint(name)], err = next(each); err != nil {
				return nil, err
			}
		}
		return all, nil
	case []any:
		all := make([]any, len(v))
		for i := range v {
			if all[i], err = next(v[i]); err != nil {
				return nil, err
			}
		}
		return all, nil
	}
	return value, nil
}

// rounds is how often variables in the values of variables are replaced.
const rounds = 100

// text replaces the variables of a text. One that is all of it keeps its type.
func (s *scope) text(text string, document any, at string) (any, error) {
	text, err := dereferenced(text, document, at)
	if err != nil {
		return nil, err
	}
	return s.variables(text)
}

// variables replaces the variables of a text that has no references.
func (s *scope) variables(text string) (any, error) {
	for range rounds {
		found := variable.FindStringSubmatchIndex(text)
		if found == nil {
			return strings.ReplaceAll(text, `\{{`, "{{"), nil
		}
		begin, end := found[4], found[5]
		inner := strings.TrimSpace(strings.NewReplacer("{{", "", "}}", "").Replace(text[begin:end]))
		shallow := strings.HasPrefix(inner, "-")
		if inner = strings.TrimSpace(strings.TrimPrefix(inner, "-")); inner == "@" {
			return nil, &Unread{"the variable @"}
		}
		if s.deleted {
			inner = strings.ReplaceAll(inner, "request.object", "request.oldObject")
		}
		value, err := s.query(inner)
		if err != nil {
			return nil, err
		}
		if begin == 0 && end == len(text) {
			return value, nil
		}
		in, ok := value.(string)
		if !ok {
			raw, err := json.Marshal(value)
			if err != nil {
				return nil, fmt.Errorf("write a value: %w", err)
			}
			in = string(raw)
		}
		if shallow {
			in = strings.ReplaceAll(in, "{{", `\{{`)
		}
		if text = text[:begin] + in + text[end:]; len(text) > longest {
			return nil, fmt.Errorf("a text is longer than %d bytes", longest)
		}
	}
	return nil, errors.New("variables in variables without an end")
}

// dereferenced replaces references to other texts of a document.
func dereferenced(text string, document any, at string) (string, error) {
	for range rounds {
		found := reference.FindStringSubmatchIndex(text)
		if found == nil {
			break
		}
		begin, end := found[4], found[5]
		to := strings.Trim(text[begin:end], "$()")
		operator, _ := operatorOf(to)
		to = to[len(operator):]
		if !path.IsAbs(to) {
			to = path.Join(at, to)
		}
		value, ok := leafAt(document, to)
		if !ok {
			return "", fmt.Errorf("no text at %s", to)
		}
		switch v := value.(type) {
		case string:
			value = v
		case int64:
			value = fmt.Sprint(v)
		case float64:
			value = fmt.Sprintf("%f", v)
		default:
			return "", fmt.Errorf("no text at %s", to)
		}
		if _, isText := value.(string); !isText && operator == "" {
			return "", fmt.Errorf("no text at %s", to)
		}
		text = text[:begin] + operator + fmt.Sprint(value) + text[end:]
	}
	return strings.ReplaceAll(text, `\$(`, "$("), nil
}

// leafAt returns a value of a document, whose keys may have anchors.
func leafAt(document any, to string) (any, bool) {
	for part := range strings.SplitSeq(strings.Trim(to, "/"), "/") {
		next, found := any(nil), false
		switch v := document.(type) {
		case map[string]any:
			for key, value := range v {
				if syntax.PatternOf(map[string]any{key: nil}, "").Keys[0].Name == part {
					next, found = value, true
				}
			}
		case []any:
			for i := range v {
				if fmt.Sprint(i) == part {
					next, found = v[i], true
				}
			}
		}
		if !found {
			return nil, false
		}
		document = next
	}
	return document, true
}

// conditions evaluates conditions. An error ends it.
func (s *scope) conditions(c *syntax.Conditions) (bool, error) {
	some, all := c.Any == nil, true
	for i := range c.Any {
		holds, err := s.condition(&c.Any[i])
		if err != nil {
			return false, err
		}
		if holds {
			some = true
			break
		}
	}
	for i := range c.All {
		holds, err := s.condition(&c.All[i])
		if err != nil {
			return false, err
		}
		if !holds {
			all = false
			break
		}
	}
	return some && all, nil
}

func (s *scope) condition(c *syntax.Condition) (bool, error) {
	key, err := s.resolved(c.Key.Of)
	if err != nil {
		return false, err
	}
	value, err := s.resolved(c.Value.Of)
	if err != nil {
		return false, err
	}
	return holds(c.Operator, key, value)
}
