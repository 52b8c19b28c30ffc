//go:build !race

// What reads the whole source is the same with the race detector, and takes minutes.

package usher_test

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/printer"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// recordedAPI has the exported declarations of public packages, a line each.
const recordedAPI = "testdata/api.txt"

// public are the packages that Go programs may import, and who needs them.
func public() map[string]string {
	return map[string]string{
		".":                       "all: the contract of deciders and doors",
		"api":                     "programs that read or write policies: the table of kinds",
		"api/kcloudlabs/v1alpha1": "the same: kinds of kinitiras",
		"api/usher/v1alpha1":      "the same: kinds of Usher",
		"deploy/crds":             "installers: the CRDs of these kinds",
		"door/admission":          "webhooks in Go",
		"door/apiserver":          "API servers with deciders of their own",
		"door/authorization":      "authorization webhooks in Go",
		"door/conversion":         "conversion webhooks in Go",
		"door/transport":          "clients that obey policies",
		"fact":                    "embedders: what policies read in addition to requests",
		"fact/cached":             "the same, with a memory",
		"fact/cluster":            "the same, from a cluster",
		"fact/http":               "the same, from HTTP services",
		"fact/object":             "the same, from files",
		"library":                 "installers and tests: the packs of policies",
		"live":                    "embedders: policies in force",
		"observe/decisionlog":     "webhooks in Go: a log of decisions",
		"observe/metrics":         "webhooks in Go: metrics of decisions",
		"plugin":                  "API servers with policies",
		"policytest":              "authors of policies: cases as Go tests",
		"simulate":                "tests of webhooks: the admission chain of an API server",
		"source":                  "embedders: where policies come from",
		"source/cluster":          "the same, from a cluster",
		"source/dir":              "the same, from files",
		"webhook":                 "webhooks in Go: a server",
	}
}

// private are the folders that no other module can import, or has a reason to.
var private = regexp.MustCompile(`^(cmd|hack|examples)/|(^|/)internal(/|$)`)

// TestPublicPackages fails if a package is neither public nor private: who needs it is said in the list.
func TestPublicPackages(t *testing.T) {
	t.Parallel()
	folders, listed := sources(t).imports, public()
	for folder := range folders {
		if listed[folder] == "" && !private.MatchString(folder) {
			t.Errorf("package %s can be imported by everybody: move it below internal/, or say in public() who needs it", folder)
		}
	}
	for folder := range listed {
		if _, ok := folders[folder]; !ok {
			t.Errorf("public package %s does not exist", folder)
		}
	}
}

// TestAPI compares the exported declarations of public packages with those that are recorded:
//
//	RECORD=1 go test . -run TestAPI
//
// It fails if one of them mentions a type of an internal package.
func TestAPI(t *testing.T) {
	t.Parallel()
	var now []string
	for _, folder := range slices.Sorted(maps.Keys(public())) {
		now = append(now, declarations(t, folder)...)
	}
	slices.Sort(now)
	now = slices.Compact(now)
	if os.Getenv("RECORD") != "" {
		if err := os.WriteFile(recordedAPI, []byte(strings.Join(now, "\n")+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	text, err := os.ReadFile(recordedAPI)
	if err != nil {
		t.Fatal(err)
	}
	recorded := strings.Split(strings.TrimSuffix(string(text), "\n"), "\n")
	for _, line := range now {
		if _, found := slices.BinarySearch(recorded, line); !found {
			t.Errorf("added: %s", line)
		}
	}
	for _, line := range recorded {
		if _, found := slices.BinarySearch(now, line); !found {
			t.Errorf("removed: %s", line)
		}
	}
	if t.Failed() {
		t.Log("if that is intended, write it into CHANGELOG.md and record it: RECORD=1 go test . -run TestAPI")
	}
}

// A surface collects the exported declarations of one file.
type surface struct {
	t        *testing.T
	folder   string
	internal map[string]string // imports of internal packages, by the name in the file
	lines    []string
}

// declarations returns the exported declarations of a package, a line each.
func declarations(t *testing.T, folder string) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(filepath.FromSlash(folder), "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		s := &surface{t: t, folder: folder, internal: map[string]string{}}
		for _, spec := range file.Imports {
			path, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				t.Fatal(err)
			}
			if local := path[strings.LastIndex(path, "/")+1:]; strings.Contains(path, "/internal/") {
				if spec.Name != nil {
					local = spec.Name.Name
				}
				s.internal[local] = path
			}
		}
		for _, declaration := range file.Decls {
			s.declare(declaration)
		}
		lines = append(lines, s.lines...)
	}
	return lines
}

func (s *surface) declare(declaration ast.Decl) {
	switch d := declaration.(type) {
	case *ast.FuncDecl:
		receiver := ""
		if d.Recv != nil {
			receiver = s.text(d.Recv.List[0].Type)
		}
		if d.Name.IsExported() && (receiver == "" || ast.IsExported(strings.TrimLeft(receiver, "*"))) {
			s.add(strings.TrimSpace("func "+receiver), d.Name.Name+strings.TrimPrefix(s.text(d.Type), "func"), d.Type)
		}
	case *ast.GenDecl:
		for _, spec := range d.Specs {
			switch spec := spec.(type) {
			case *ast.ValueSpec:
				s.values(d.Tok.String(), spec)
			case *ast.TypeSpec:
				s.types(spec)
			}
		}
	}
}

// values adds constants or variables. What has no type has that of its value.
func (s *surface) values(kind string, spec *ast.ValueSpec) {
	for _, name := range spec.Names {
		switch {
		case !name.IsExported():
		case spec.Type != nil:
			s.add(kind, name.Name+" "+s.text(spec.Type), spec.Type)
		default:
			s.add(kind, name.Name)
			for _, value := range spec.Values {
				s.check(name.Name, value)
			}
		}
	}
}

func (s *surface) types(spec *ast.TypeSpec) {
	if !spec.Name.IsExported() {
		return
	}
	name := spec.Name.Name
	members := &ast.FieldList{}
	switch of := spec.Type.(type) {
	case *ast.StructType:
		s.add("type", name+" struct")
		members = of.Fields
	case *ast.InterfaceType:
		s.add("type", name+" interface")
		members = of.Methods
	default:
		equals := ""
		if spec.Assign.IsValid() {
			equals = "= "
		}
		s.add("type", name+" "+equals+s.text(of), of)
	}
	if spec.TypeParams != nil {
		s.add("type", name+" of "+s.text(&ast.FuncType{TypeParams: spec.TypeParams, Params: &ast.FieldList{}}), spec.TypeParams)
	}
	for _, member := range members.List {
		of := s.text(member.Type)
		if len(member.Names) == 0 && ast.IsExported(of[strings.LastIndexAny(of, ".*")+1:]) {
			s.add("type", name+" embeds "+of, member.Type)
		}
		for _, field := range member.Names {
			if field.IsExported() {
				s.add("type", name+"."+field.Name+" "+of, member.Type)
			}
		}
	}
}

// add adds a declaration, with what it mentions.
func (s *surface) add(kind, text string, mentions ...ast.Node) {
	s.lines = append(s.lines, fmt.Sprintf("%s: %s %s", s.folder, kind, text))
	for _, node := range mentions {
		s.check(text, node)
	}
}

// check fails if a node mentions an internal package.
func (s *surface) check(name string, node ast.Node) {
	ast.Inspect(node, func(n ast.Node) bool {
		if selector, ok := n.(*ast.SelectorExpr); ok {
			if id, ok := selector.X.(*ast.Ident); ok && s.internal[id.Name] != "" {
				s.t.Errorf("%s: %s mentions %s of %s, which others cannot import", s.folder, name, selector.Sel.Name, s.internal[id.Name])
			}
		}
		return true
	})
}

// text is a node on one line.
func (s *surface) text(node ast.Node) string {
	var b bytes.Buffer
	if err := printer.Fprint(&b, token.NewFileSet(), node); err != nil {
		s.t.Fatal(err)
	}
	return strings.Join(strings.Fields(b.String()), " ")
}
