package closure

import (
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"

	"github.com/usher-dev/usher/internal/lang/cel/meter"
)

// A shape says what a loop does with the values of its body.
type shape uint8

const (
	// all and exists stop at the first item that decides.
	all shape = iota
	exists
	existsOne
	// collect makes a list, of the items for which the condition holds if there is one.
	collect
	// general is every other loop: it computes its accumulator itself.
	general
)

// A loop is a comprehension.
type loop struct {
	over node
	// body computes the value of an item, or of [general] the accumulator; condition may be nil.
	body, condition node
	// first and second are the slots of the variables; second is -1 if there is one only.
	first, second int
	shape         shape
	// general is nil for other shapes.
	general *accumulator
	// elements are those of a list over which the loop is, with slots of their own from the one that is
	// called from; nil if it is over something else.
	elements []node
	from     int
	// nanos is what one iteration takes, besides what its nodes spend.
	nanos int64
}

// A tally is what a loop has found so far.
type tally struct {
	list  []any
	count int
	err   any
	// decided says that all or exists has its result.
	decided bool
}

func (l *loop) eval(f *Frame) any {
	if l.elements != nil {
		return l.written(f)
	}
	over := l.over.eval(f)
	if isError(over) {
		return over
	}
	if l.general != nil {
		l.general.start(f)
	}
	var t tally
	switch v := over.(type) {
	case []any:
		l.items(f, &t, v)
	case map[string]any:
		l.entries(f, &t, v)
	case listed:
		l.items(f, &t, v.Items())
	case native:
		l.entries(f, &t, v.Native())
	default:
		return l.others(f, f.value(over))
	}
	return l.result(f, &t)
}

// written loops over a list that is written as one, without making it.
func (l *loop) written(f *Frame) any {
	for i, element := range l.elements {
		v := element.eval(f)
		if isError(v) {
			return v
		}
		*f.slot(l.from + i) = v
	}
	if l.general != nil {
		l.general.start(f)
	}
	var t tally
	for i := range l.elements {
		if *f.slot(l.first) = *f.slot(l.from + i); l.second >= 0 {
			*f.slot(l.first), *f.slot(l.second) = types.Int(i), *f.slot(l.from + i)
		}
		if !l.step(f, &t) {
			break
		}
	}
	return l.result(f, &t)
}

func (l *loop) items(f *Frame, t *tally, items []any) {
	if l.second < 0 {
		for i := range items {
			*f.slot(l.first) = items[i]
			if !l.step(f, t) {
				return
			}
		}
		return
	}
	for i := range items {
		*f.slot(l.first), *f.slot(l.second) = types.Int(i), items[i]
		if !l.step(f, t) {
			return
		}
	}
}

func (l *loop) entries(f *Frame, t *tally, entries map[string]any) {
	for key, value := range entries {
		if *f.slot(l.first) = key; l.second >= 0 {
			*f.slot(l.second) = value
		}
		if !l.step(f, t) {
			return
		}
	}
}

// others loops over values that are no values of decoded objects.
func (l *loop) others(f *Frame, over ref.Val) any {
	var t tally
	if l.second >= 0 {
		var foldable traits.Foldable
		switch v := over.(type) {
		case traits.Mapper:
			foldable = types.ToFoldableMap(v)
		case traits.Lister:
			foldable = types.ToFoldableList(v)
		default:
			return types.NewErr("unsupported comprehension range type: %T", over)
		}
		foldable.Fold(&folder{l, f, &t})
		return l.result(f, &t)
	}
	if !over.Type().HasTrait(traits.IterableType) {
		return types.NewErr("got '%T', expected iterable type", over)
	}
	for it := over.(traits.Iterable).Iterator(); it.HasNext() == types.True; {
		item := it.Next()
		*f.slot(l.first) = item
		if !l.step(f, &t) {
			break
		}
	}
	return l.result(f, &t)
}

// A folder does the steps of a loop over a map or list.
type folder struct {
	*loop

	frame *Frame
	tally *tally
}

// FoldEntry implements [traits.Folder].
func (d *folder) FoldEntry(key, value any) bool {
	*d.frame.slot(d.first), *d.frame.slot(d.second) = key, value
	return d.step(d.frame, d.tally)
}

// step computes what one item changes, and reports whether to go on.
func (l *loop) step(f *Frame, t *tally) bool {
	f.meter.Spend(l.nanos)
	switch l.shape {
	case all, exists:
		v := l.body.eval(f)
		holds, ok := truth(v)
		switch {
		case ok:
			t.decided = holds == (l.shape == exists)
		case t.err == nil:
			t.err = noOverload(v)
		}
	case existsOne:
		v := l.body.eval(f)
		switch holds, ok := truth(v); {
		case !ok:
			t.err = noOverload(v)
		case holds:
			t.count++
		}
	case collect:
		l.add(f, t)
	case general:
		if !l.general.next(f, l) {
			return false
		}
	}
	return !t.decided
}

// add adds the value of an item to the list. Once there was an error, there is no list.
func (l *loop) add(f *Frame, t *tally) {
	if l.condition != nil {
		v := l.condition.eval(f)
		switch holds, ok := truth(v); {
		case !ok:
			t.err = noOverload(v)
			return
		case !holds:
			return
		}
	}
	switch v := l.body.eval(f); {
	case t.err != nil:
	case isError(v):
		t.err = v
	default:
		f.meter.Take(meter.ItemBytes)
		t.list = append(t.list, v)
	}
}

func (l *loop) result(f *Frame, t *tally) any {
	switch {
	case l.shape == general:
		return l.general.result(f)
	case t.decided:
		return types.Bool(l.shape == exists)
	case t.err != nil:
		return t.err
	case l.shape == existsOne:
		return types.Bool(t.count == 1)
	case l.shape == collect:
		return listOf(f, t.list)
	}
	return types.Bool(l.shape == all)
}

// listBytes is the memory of a list without its items, and mapBytes that of a map without its entries.
const listBytes, mapBytes = 100, 100

// mapNanos is what it takes to make an empty map.
const mapNanos = 200

// listOf is a list of values.
func listOf(f *Frame, items []any) any {
	if items == nil {
		return []any{}
	}
	for i, item := range items {
		if !isNative(item) {
			items[i] = nativeOf(item)
		}
	}
	if allNative(items) {
		return items
	}
	values := make([]ref.Val, len(items))
	for i := range items {
		values[i] = f.value(items[i])
	}
	return f.program.adapter.NativeToValue(values)
}

// nativeOf is a scalar as decoded objects have it, and everything else as it is.
func nativeOf(v any) any {
	switch v := v.(type) {
	case types.String:
		return string(v)
	case types.Bool:
		return bool(v)
	case types.Int:
		return int64(v)
	case types.Double:
		return float64(v)
	case types.Null:
		return nil
	case native:
		return v.Native()
	case listed:
		return v.Items()
	}
	return v
}
