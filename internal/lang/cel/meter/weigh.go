package meter

import (
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
	"k8s.io/apiserver/pkg/cel/mutation"
)

// perValue is the weight of a value besides its characters, in bytes. A scalar that is printed takes less.
const perValue = 24

// walkNanos is at least what it takes to visit a value.
const walkNanos = 20

// entryNanos is at least what it takes to visit an entry of a map of CEL values.
const entryNanos = 300

// A Weigher is a value that knows how to weigh itself.
type Weigher interface{ Weigh(m *Meter) int64 }

// listed and native are values that have the list, or the map, of a decoded object.
type (
	listed interface{ Items() []any }
	native interface{ Native() map[string]any }
)

// Weigh returns the weight of a value: at least its characters, and the memory of a copy of it, in bytes.
// A part counts each time that it occurs. Walking through the value is spent as it goes, so that an endless
// value ends the evaluation.
func (m *Meter) Weigh(v any) int64 {
	m.Spend(walkNanos)
	switch v := v.(type) {
	case nil, bool, int64, float64, types.Bool, types.Int, types.Double, types.Uint, types.Null, *types.Type, *types.Err:
		return perValue
	case string:
		return perValue + int64(len(v))
	case types.String:
		return perValue + int64(len(v))
	case types.Bytes:
		return perValue + int64(len(v))
	case []any:
		return weighItems(m, v)
	case map[string]any:
		return weighEntries(m, v)
	case listed:
		return weighItems(m, v.Items())
	case native:
		return weighEntries(m, v.Native())
	case Weigher:
		return v.Weigh(m)
	case *types.Optional:
		if v.HasValue() {
			return perValue + m.Weigh(v.GetValue())
		}
		return perValue
	case traits.Mapper:
		return weighMapper(m, v)
	case traits.Lister:
		return weighLister(m, v)
	case *mutation.JSONPatchVal:
		weight := int64(3*perValue + len(v.Op) + len(v.Path) + len(v.From))
		if v.Val != nil {
			weight += m.Weigh(v.Val)
		}
		return weight
	}
	// A time, a quantity, an address or the like, of a text that was read.
	return 8 * perValue
}

func weighItems(m *Meter, items []any) int64 {
	weight := int64(perValue)
	for _, item := range items {
		weight += m.Weigh(item)
	}
	return weight
}

func weighEntries(m *Meter, entries map[string]any) int64 {
	weight := int64(perValue)
	for key, value := range entries {
		weight += int64(perValue+len(key)) + m.Weigh(value)
	}
	return weight
}

func weighMapper(m *Meter, v traits.Mapper) int64 {
	weight := int64(perValue)
	for it := v.Iterator(); it.HasNext() == types.True; {
		m.Spend(entryNanos)
		key := it.Next()
		value, _ := v.Find(key)
		weight += m.Weigh(key) + m.Weigh(value)
	}
	return weight
}

func weighLister(m *Meter, v traits.Lister) int64 {
	weight := int64(perValue)
	size, _ := v.Size().(types.Int)
	for i := range size {
		weight += m.Weigh(v.Get(i))
	}
	return weight
}

// Compare takes what it takes to compare two values.
func (m *Meter) Compare(left, right any) {
	if isScalar(left) || isScalar(right) {
		m.Spend(walkNanos + min(Length(left), Length(right))/Scanned)
		return
	}
	m.Walk(min(m.Weigh(left), m.Weigh(right)))
}

// Walk takes what it takes to compare or to print a value of that weight. Parts of decoded objects become
// values for a moment, of which the memory does not count: time bounds it.
func (m *Meter) Walk(weight int64) { m.Call(weight*4, 0) }

// isScalar reports whether a value has no parts.
func isScalar(v any) bool {
	switch v.(type) {
	case nil, bool, int64, float64, string, types.Bool, types.Int, types.Double, types.Uint, types.Null, types.String, types.Bytes, types.Timestamp, types.Duration, *types.Type:
		return true
	}
	return false
}

// Scanned is how many characters are copied, compared or hashed in a nanosecond.
const Scanned = 4

// ItemBytes is the memory of an item of a list that is made, and EntryBytes that of an entry of a map.
const ItemBytes, EntryBytes = 40, 160

// Length is the number of bytes of a text; 0 for other values.
func Length(v any) int64 {
	switch v := v.(type) {
	case string:
		return int64(len(v))
	case types.String:
		return int64(len(v))
	case types.Bytes:
		return int64(len(v))
	}
	return 0
}

// Scan takes what it takes to copy, compare or hash a text. Other values are none.
func (m *Meter) Scan(v any) { m.Spend(Length(v) / Scanned) }

// Key takes what it takes to find a key in a map, or to say that it is not there.
func (m *Meter) Key(v any) {
	if !isScalar(v) {
		m.Walk(m.Weigh(v))
		return
	}
	m.Spend(Length(v) / Scanned)
}

// Describe takes what it takes to print a value in an error.
func (m *Meter) Describe(v ref.Val) {
	weight := m.Weigh(v)
	m.Call(weight*8, weight*2)
}
