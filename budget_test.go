package usher_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const (
	maxFileLines     = 400
	maxFunctionLines = 60
)

// longer are the functions that may be longer, and up to which length: each is one loop or one
// switch, which is harder to read in pieces.
var longer = map[string]int{
	"internal/jsontree/skip.go value": 71,
}

// TestNothingIsLong checks the limits of CONTRIBUTING.md, in all modules. Tests and generated code
// have no limit.
func TestNothingIsLong(t *testing.T) {
	t.Parallel()
	used := map[string]bool{}
	err := filepath.WalkDir(".", func(name string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && name != "." && (strings.HasPrefix(entry.Name(), ".") || entry.Name() == "testdata"):
			return filepath.SkipDir
		case entry.IsDir() || !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go"):
			return nil
		}
		files := token.NewFileSet()
		file, err := parser.ParseFile(files, name, nil, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil || ast.IsGenerated(file) {
			return err
		}
		if lines := files.File(file.Pos()).LineCount() - 1; lines > maxFileLines {
			t.Errorf("%s has %d lines, more than %d: it holds more than one idea", name, lines, maxFileLines)
		}
		for _, declaration := range file.Decls {
			function, ok := declaration.(*ast.FuncDecl)
			if !ok {
				continue
			}
			most, key := maxFunctionLines, filepath.ToSlash(name)+" "+function.Name.Name
			if more, ok := longer[key]; ok {
				most, used[key] = more, true
			}
			if lines := files.Position(function.End()).Line - files.Position(function.Pos()).Line + 1; lines > most {
				t.Errorf("%s: %s has %d lines, more than %d", name, function.Name.Name, lines, most)
			} else if used[key] && lines <= maxFunctionLines {
				t.Errorf("%s: %s has %d lines: remove it from longer", name, function.Name.Name, lines)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for key := range longer {
		if !used[key] {
			t.Errorf("longer names %s, which is not there", key)
		}
	}
}

// TestNoFoldersAreTangled fails on import cycles between folders of the first level, with
// everything below them, and between the folders below cmd and internal.
func TestNoFoldersAreTangled(t *testing.T) {
	t.Parallel()
	needs := map[string]map[string]bool{}
	for folder, imports := range packages(t) {
		from := topFolder(folder)
		if needs[from] == nil {
			needs[from] = map[string]bool{}
		}
		for _, imported := range imports {
			if ours, ok := within(imported); ok && topFolder(ours) != from {
				needs[from][topFolder(ours)] = true
			}
		}
	}
	if tangled := tangles(needs); len(tangled) > 0 {
		t.Errorf("these folders need one another: %v", tangled)
	}
}

// TestTanglesAreFound checks that the test above can fail.
func TestTanglesAreFound(t *testing.T) {
	t.Parallel()
	got := tangles(map[string]map[string]bool{"a": {"b": true}, "b": {"c": true}, "c": {"a": true, "d": true}, "d": {}})
	if want := []string{"a", "b", "c"}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// topFolder is the folder that a package counts for.
func topFolder(folder string) string {
	first, rest, deeper := strings.Cut(folder, "/")
	if deeper && (first == "cmd" || first == "internal") {
		second, _, _ := strings.Cut(rest, "/")
		return first + "/" + second
	}
	return first
}

// tangles returns the folders that need themselves through others, sorted.
func tangles(needs map[string]map[string]bool) []string {
	var tangled []string
	for _, start := range slices.Sorted(maps.Keys(needs)) {
		seen, next := map[string]bool{}, slices.Collect(maps.Keys(needs[start]))
		for len(next) > 0 && !seen[start] {
			folder := next[0]
			next = next[1:]
			if !seen[folder] {
				seen[folder] = true
				next = slices.AppendSeq(next, maps.Keys(needs[folder]))
			}
		}
		if seen[start] {
			tangled = append(tangled, start)
		}
	}
	return tangled
}
