package syntax

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
)

// A Pattern is what a value has to be like, or a patch: a map, a list or a scalar.
type Pattern struct {
	Field string
	Sort  Sort
	// Keys are those of a map, sorted as text.
	Keys []Key
	// Items are the elements of a list.
	Items []*Pattern
	// Scalar is a string, bool, int64, float64 or nil.
	Scalar any

	raw any
}

// A Sort is what a pattern or a value is.
type Sort int

// The sorts.
const (
	Scalar Sort = iota
	Map
	List
)

// A Key of a map is a name, in an anchor or without.
type Key struct {
	// Text is the key as it is written.
	Text   string
	Anchor Anchor
	// Name is the text without the anchor.
	Name  string
	Value *Pattern
}

// An Anchor says what a key has to do with the rest of its map.
type Anchor string

// The anchors, by what stands before the parenthesis.
const (
	NoAnchor    Anchor = ""
	Conditional Anchor = "("
	Global      Anchor = "<("
	Negation    Anchor = "X("
	AddIfAbsent Anchor = "+("
	Equality    Anchor = "=("
	Existence   Anchor = "^("
)

var anchored = regexp.MustCompile(`^([+<=X^]?\()(.+)\)$`)

// UnmarshalJSON keeps the pattern as it is written. Its parts and fields are known when the policy has been read.
func (p *Pattern) UnmarshalJSON(raw []byte) error { return unmarshal(raw, &p.raw) }

// Raw returns the pattern as it is written.
func (p *Pattern) Raw() any { return p.raw }

// PatternOf parses a pattern at a field.
func PatternOf(value any, field string) *Pattern {
	p := &Pattern{Field: field, raw: value}
	switch v := value.(type) {
	case map[string]any:
		p.Sort = Map
		for _, text := range slices.Sorted(maps.Keys(v)) {
			key := keyOf(text)
			key.Value = PatternOf(v[text], field+"."+text)
			p.Keys = append(p.Keys, key)
		}
	case []any:
		p.Sort = List
		for i := range v {
			p.Items = append(p.Items, PatternOf(v[i], fmt.Sprintf("%s[%d]", field, i)))
		}
	default:
		p.Scalar = v
	}
	return p
}

func keyOf(text string) Key {
	if found := anchored.FindStringSubmatch(strings.TrimSpace(text)); found != nil {
		return Key{Text: text, Anchor: Anchor(found[1]), Name: found[2]}
	}
	return Key{Text: text, Name: text}
}

// A Value is any value of JSON, with int64 and float64 for numbers.
type Value struct{ Of any }

// UnmarshalJSON implements [json.Unmarshaler].
func (v *Value) UnmarshalJSON(raw []byte) error { return unmarshal(raw, &v.Of) }

// UnmarshalJSON reads conditions, or a list of conditions that all have to hold.
func (c *Conditions) UnmarshalJSON(raw []byte) error {
	type plain Conditions
	if c.listed = raw[0] == '['; c.listed {
		return strictly(raw, &c.All)
	}
	return strictly(raw, (*plain)(c))
}
