package cue

import (
	"math"
	"strings"

	"cuelang.org/go/cue/ast"
	"cuelang.org/go/cue/literal"

	"github.com/usher-dev/usher/lang/cue/internal/syntax"
)

// call returns how large what a function returns may be.
func (e *estimate) call(x *ast.CallExpr, in *scope) *extent {
	args := make([]*extent, len(x.Args))
	v := nothing()
	for i, arg := range x.Args {
		args[i] = e.eval(arg, in)
		v.cost += e.use(arg, args[i])
	}
	c := &callee{estimate: e, call: x, args: args, result: v}
	switch fun := x.Fun.(type) {
	case *ast.Ident:
		if fun.Node == nil {
			return c.predeclared(strings.TrimPrefix(fun.Name, "__"))
		}
	case *ast.SelectorExpr:
		pkg, ok := fun.X.(*ast.Ident)
		if !ok {
			break
		}
		if spec, ok := pkg.Node.(*ast.ImportSpec); ok {
			path, _ := literal.Unquote(spec.Path.Value)
			path, _, _ = strings.Cut(path, ":")
			name, _ := syntax.StaticLabel(fun.Sel)
			return c.builtin(path + "." + name)
		}
	}
	return c.other()
}

// A callee is a function with what it is called with.
type callee struct {
	*estimate
	call   *ast.CallExpr
	args   []*extent
	result *extent
}

// arg returns the i-th argument.
func (c *callee) arg(i int) *extent {
	if i < len(c.args) {
		return c.args[i]
	}
	return nothing()
}

// text and number return how long or large the i-th argument may be, 0 if it is none.
func (c *callee) text(i int) float64   { return max(c.arg(i).text, 0) }
func (c *callee) number(i int) float64 { return max(c.arg(i).number, 0) }

// repeats returns how often the i-th argument says.
func (c *callee) repeats(i int) float64 {
	if n := only(c.arg(i)); n != nil && n.signed < 0 {
		return 0
	}
	return c.number(i)
}

func (c *callee) predeclared(name string) *extent {
	switch name {
	case "len":
		v := c.result
		v.number = max(c.count(c.arg(0)), c.text(0))
		v.least = 1
		// The length of a list that is mentioned needs no copy of it.
		return v
	case "close":
		return c.arg(0)
	case "and":
		v := nothing()
		for _, p := range c.arg(0).parts {
			c.join(v, p.value)
		}
		for _, a := range c.arg(0).alts {
			c.join(v, c.anyOf(a))
		}
		c.embeds(v)
		v.cost += c.result.cost
		return v
	case "or":
		v := nothing()
		v.alts, v.cost = []*extent{c.anyOf(c.arg(0))}, c.result.cost
		v.settle()
		if !v.isScalar() {
			v.ways = max(c.count(c.arg(0)), 1)
		}
		return v
	case "div", "mod", "quo", "rem":
		c.result.number = c.number(0) + c.number(1)
		c.result.least = 1
		return c.result
	}
	return c.other()
}

// other is the extent of what a function returns that makes no more than a few times
// its arguments.
func (c *callee) other() *extent {
	v, size := c.result, 64.0
	for _, arg := range c.args {
		size += c.total(arg) + digits(max(arg.number, 0))
		v.number = max(v.number, arg.number)
	}
	v.text = 6 * size
	v.number = max(v.number, c.parsed())
	v.any = &inputSize{values: size, bytes: size, number: v.number}
	v.least = 1e-300
	return c.checked(c.call, v)
}

// parsed is how large a number the arguments may have as text.
func (c *callee) parsed() float64 {
	longest := 0.0
	for i := range c.args {
		longest = max(longest, c.text(i))
	}
	return math.Pow(10, min(longest, 300))
}

// scalar is the extent of a result that is a text and number of at most this size.
func (c *callee) scalar(text, number float64) *extent {
	c.result.text, c.result.number, c.result.least = text, number, 1
	return c.checked(c.call, c.result)
}

// listOf is the extent of a list of this many texts that together have so many bytes.
func (c *callee) listOf(n, bytes float64) *extent {
	c.checkMade(c.call, n)
	member := nothing()
	member.text, member.number, member.least = bytes, 0x10ffff, 1
	v := c.result
	v.members = n
	v.parts = []part{{member, 0}}
	v.cost += n + bytes
	return v
}

func (c *callee) builtin(name string) *extent {
	if tree := c.computed(name); tree != nil {
		v := treeExtent(tree)
		v.cost = c.result.cost
		return v
	}
	switch name {
	case "strings.Repeat":
		return c.scalar(times(c.text(0), c.repeats(1)), -1)
	case "strings.Replace":
		return c.scalar(c.replaced(), -1)
	case "regexp.ReplaceAll", "regexp.ReplaceAllLiteral":
		return c.scalar(c.text(1)+times(c.text(1)+1, c.text(2)+c.backReferences()*c.text(1)), -1)
	case "strings.Join":
		list := c.arg(0)
		return c.scalar(c.total(list)+c.count(list)*c.text(1), -1)
	case "strings.Split", "strings.SplitN", "strings.SplitAfter", "strings.SplitAfterN", "strings.Fields", "strings.Runes":
		return c.listOf(c.pieces(), c.text(0))
	case "strings.ToUpper", "strings.ToLower", "strings.ToTitle", "strings.ToCamel", "strings.Trim", "strings.TrimLeft",
		"strings.TrimRight", "strings.TrimSpace", "strings.TrimPrefix", "strings.TrimSuffix", "strings.SliceRunes", "strings.ByteSlice":
		return c.scalar(3*c.text(0), -1)
	case "strings.HasPrefix", "strings.HasSuffix", "strings.Contains", "strings.ContainsAny", "strings.Count", "strings.Index",
		"strings.IndexAny", "strings.LastIndex", "strings.LastIndexAny", "strings.Compare", "strings.ByteAt", "regexp.Match", "regexp.Valid":
		return c.scalar(-1, max(c.text(0), 255))
	case "regexp.Find":
		return c.scalar(c.text(1), -1)
	case "regexp.FindAll", "regexp.FindSubmatch", "regexp.FindNamedSubmatch", "regexp.FindAllSubmatch", "regexp.FindAllNamedSubmatch":
		return c.submatches(name)
	case "list.Range":
		return c.listRange()
	case "list.Repeat":
		c.concat(c.result, c.repeats(1), c.arg(0))
		c.checkMade(c.call, c.result.members)
		return c.result
	case "list.Concat":
		return c.flat(c.arg(0))
	case "list.FlattenN":
		return c.flattened(c.arg(0))
	case "list.Drop", "list.Take", "list.Slice", "list.Sort", "list.SortStable", "list.SortStrings", "list.Reverse":
		return c.arg(0)
	case "list.Contains", "list.IsSorted", "list.IsSortedStrings", "list.UniqueItems":
		return c.scalar(-1, 1)
	case "list.Min":
		if v := c.least(); v != nil {
			return v
		}
		return c.scalar(-1, max(c.anyOf(c.arg(0)).number, 0))
	case "list.Sum", "list.Avg", "list.Max":
		member := c.anyOf(c.arg(0))
		return c.scalar(-1, max(c.count(c.arg(0)), 1)*max(member.number, 0))
	case "bits.Lsh", "math/bits.Lsh", "math/bits.Set", "math/bits.Clear":
		if by := c.number(1); by > longestShift {
			c.exceed(c.call, "may be a number of more than %d bits", longestShift)
		}
		return c.scalar(-1, math.Inf(1))
	case "math.Pow":
		return c.scalar(-1, math.Pow(c.number(0)+1, c.number(1)))
	case "math.Round", "math.Floor", "math.Ceil", "math.Trunc", "math.RoundToEven", "math.Abs", "math.Sqrt":
		return c.scalar(-1, c.number(0)+1)
	case "strconv.Atoi", "strconv.ParseInt", "strconv.ParseUint", "strconv.ParseFloat", "strconv.ParseNumber":
		return c.scalar(-1, c.parsedNumber())
	case "strconv.FormatInt", "strconv.FormatUint":
		return c.scalar(4*digits(c.number(0))+2, -1)
	case "strconv.FormatFloat":
		return c.scalar(c.number(2)+400, -1)
	case "text/template.Execute":
		return c.template()
	case "encoding/json.Unmarshal":
		switch c.beginning() {
		case '-', '0', '1', '2', '3', '4', '5', '6', '7', '8', '9':
			return c.scalar(-1, c.parsed())
		case '{', '[':
			v := c.other()
			v.text, v.number = -1, -1
			return v
		}
	case "encoding/json.Indent":
		return c.scalar(times(c.text(0)+1, c.text(1)+min(c.text(0), deepest)*c.text(2)+1), -1)
	case "encoding/yaml.Unmarshal", "encoding/yaml.UnmarshalStream", "encoding/yaml.Validate", "encoding/yaml.ValidatePartial":
		return c.yaml()
	}
	return c.other()
}

// computed returns the result of a function that takes a text apart, if the text is known,
// nil otherwise. Its pieces together are no larger than the text.
func (c *callee) computed(name string) any {
	text, ok := c.known(0)
	if !ok {
		return nil
	}
	by, known := c.known(1)
	switch {
	case name == "strings.TrimSpace":
		return strings.TrimSpace(text)
	case name == "strings.ToLower":
		return strings.ToLower(text)
	case name == "strings.ToUpper":
		return strings.ToUpper(text)
	case name == "strings.Fields":
		return trees(strings.Fields(text))
	case !known:
	case name == "strings.TrimPrefix":
		return strings.TrimPrefix(text, by)
	case name == "strings.TrimSuffix":
		return strings.TrimSuffix(text, by)
	case name == "strings.Split":
		return trees(strings.Split(text, by))
	}
	return nil
}
