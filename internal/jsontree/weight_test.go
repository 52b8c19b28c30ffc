package jsontree_test

import (
	"errors"
	"runtime"
	"strings"
	"testing"

	"github.com/usher-dev/usher/internal/jsontree"
)

// What decoding is said to take is what it takes, and never much less.
func TestWeightCoversTheTree(t *testing.T) {
	const n = 20000
	for _, row := range []struct{ reason, text string }{
		{"arrays", "[" + strings.Repeat("[],", n) + "[]]"},
		{"arrays of one", "[" + strings.Repeat("[0],", n) + "[]]"},
		{"empty objects", "[" + strings.Repeat("{},", n) + "{}]"},
		{"objects of one", "[" + strings.Repeat(`{"":0},`, n) + "{}]"},
		{"objects of nine", "[" + strings.Repeat(`{"a":0,"b":0,"c":0,"d":0,"e":0,"f":0,"g":0,"h":0,"i":0},`, n/10) + "{}]"},
		{"numbers", "[" + strings.Repeat("1.5,", n) + "0]"},
		{"long integers", "[" + strings.Repeat("1234567,", n) + "0]"},
		{"words", "[" + strings.Repeat("true,", n) + "null]"},
		{"strings", "[" + strings.Repeat(`"a",`, n) + `""]`},
		{"escapes", "[" + strings.Repeat(`"\u00e9\u00e9\u00e9\u00e9",`, n) + `""]`},
		{"a long string with an escape", `"` + strings.Repeat("a", 10*n) + `\n"`},
		{"text with keys", `{"metadata":{"name":"x","labels":{"a":"b"}},"spec":{"containers":[{"name":"a","image":"b"}]}}`},
	} {
		text := []byte(`{"a":` + row.text + `}`)
		_, skipIndex, err := jsontree.Prescan(text, 0, 1000, func(int) error { return nil })
		if err != nil {
			t.Fatalf("%s: %v", row.reason, err)
		}
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		tree, _, err := jsontree.SelectPrescanned(text, jsontree.All(), skipIndex)
		if err != nil {
			t.Fatalf("%s: %v", row.reason, err)
		}
		runtime.GC()
		runtime.ReadMemStats(&after)
		takes, weight := int64(after.HeapAlloc)-int64(before.HeapAlloc), int64(skipIndex.Weight())
		runtime.KeepAlive(tree)
		// The heap has other things in it, too.
		if takes > weight+64<<10 {
			t.Errorf("%s: the tree takes %d bytes, said were %d", row.reason, takes, weight)
		}
	}
}

func TestScansAreWatched(t *testing.T) {
	t.Parallel()
	text := []byte("[" + strings.Repeat("[],", 1<<20) + "[]]")
	told, calls := 0, 0
	_, skipIndex, err := jsontree.Prescan(text, 0, 1000, func(weight int) error {
		told += weight
		calls++
		return nil
	})
	if err != nil || told != skipIndex.Weight() || told < len(text) || calls < 100 {
		t.Errorf("%d calls told of %d bytes, the outline of %d: %v", calls, told, skipIndex.Weight(), err)
	}
	stop, calls := errors.New("enough"), 0
	end, _, err := jsontree.Prescan(text, 0, 1000, func(int) error {
		if calls++; calls == 3 {
			return stop
		}
		return nil
	})
	if !errors.Is(err, stop) || calls != 3 || end > len(text)/10 {
		t.Errorf("the scan ends at %d of %d after %d calls: %v", end, len(text), calls, err)
	}
}

func TestDecodingIsInterrupted(t *testing.T) {
	t.Parallel()
	text := []byte(`{"a":[` + strings.Repeat("[],", 1<<20) + "[]]}")
	_, skipIndex, err := jsontree.Prescan(text, 0, 1000, func(int) error { return nil })
	if err != nil {
		t.Fatal(err)
	}
	stop, calls := errors.New("enough"), 0
	skipIndex.Interrupt(func() error {
		if calls++; calls == 3 {
			return stop
		}
		return nil
	})
	if tree, _, err := jsontree.SelectPrescanned(text, jsontree.All(), skipIndex); !errors.Is(err, stop) || tree != nil || calls != 3 {
		t.Errorf("decoding ends after %d questions: %v", calls, err)
	}
}
