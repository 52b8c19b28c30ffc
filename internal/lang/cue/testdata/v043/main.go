// Command v043 records what CUE v0.4.3, run the way the original engine runs it, makes
// of the sources in corpus.txtar and the inputs in inputs.json. It is a module of its
// own, because a program can hold only one version of CUE. To record again:
//
//	cd lang/cue/testdata/v043 && go run .
package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path"
	"strings"

	"cuelang.org/go/cue"
	"cuelang.org/go/cue/build"
	"cuelang.org/go/cue/cuecontext"
	"cuelang.org/go/cue/parser"
)

type input struct {
	Name        string         `json:"name"`
	Operation   string         `json:"operation"`
	Object      map[string]any `json:"object"`
	OldObject   map[string]any `json:"oldObject"`
	ExtraParams map[string]any `json:"extraParams"`
}

func main() {
	if err := record(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func record() error {
	corpus, err := os.ReadFile("../corpus.txtar")
	if err != nil {
		return err
	}
	data, err := os.ReadFile("../inputs.json")
	if err != nil {
		return err
	}
	var inputs []input
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	if err := d.Decode(&inputs); err != nil {
		return err
	}
	results := map[string]map[string]string{}
	for name, source := range sources(string(corpus)) {
		results[name] = map[string]string{}
		for _, in := range inputs {
			result := evaluate(path.Dir(name), source, in)
			results[name][result] = strings.TrimSpace(results[name][result] + " " + in.Name)
		}
	}
	out, err := os.Create("../results.json")
	if err != nil {
		return err
	}
	defer out.Close()
	e := json.NewEncoder(out)
	e.SetEscapeHTML(false)
	e.SetIndent("", " ")
	return e.Encode(results)
}

func sources(archive string) map[string]string {
	files := map[string]string{}
	name := ""
	for _, line := range strings.SplitAfter(archive, "\n") {
		if strings.HasPrefix(line, "-- ") && strings.HasSuffix(line, " --\n") {
			name = line[3 : len(line)-4]
			continue
		}
		if name != "" {
			files[name] += line
		}
	}
	return files
}

func params(form string, in input) (map[string]any, string) {
	update := in.OldObject != nil && in.Operation == "UPDATE"
	data := map[string]any{"object": in.Object, "extraParams": in.ExtraParams}
	if in.ExtraParams == nil {
		data["extraParams"] = map[string]any{}
	}
	switch form {
	case "override":
		return map[string]any{"object": in.Object}, "patches"
	case "validate":
		p := map[string]any{"object": in.Object}
		if update {
			p["oldObject"] = in.OldObject
		}
		return p, "validate"
	case "rendered-override":
		data["oldObject"] = map[string]any{}
		if in.OldObject != nil {
			data["oldObject"] = in.OldObject
		}
		return map[string]any{"data": data}, "patches"
	}
	data["oldObject"] = nil
	if update {
		data["oldObject"] = in.OldObject
	}
	return map[string]any{"data": data}, "validate"
}

func evaluate(form, source string, in input) (result string) {
	defer func() {
		if recover() != nil {
			result = "error"
		}
	}()
	values, output := params(form, in)
	instance := build.NewContext().NewInstance("", nil)
	add := func(source string) error {
		file, err := parser.ParseFile("", source)
		if err != nil {
			return err
		}
		return instance.AddSyntax(file)
	}
	if add(source) != nil {
		return "error"
	}
	for _, name := range []string{"object", "oldObject", "data"} {
		value, ok := values[name]
		if !ok {
			continue
		}
		text, err := json.Marshal(value)
		if err != nil || add(name+": "+string(text)) != nil {
			return "error"
		}
	}
	value := cuecontext.New().BuildInstance(instance)
	if value.Validate() != nil {
		return "error"
	}
	field := value.LookupPath(cue.ParsePath(output))
	if !field.Exists() {
		return "error"
	}
	if output == "patches" {
		return patches(field)
	}
	return verdict(field)
}

func patches(field cue.Value) string {
	var ops []struct {
		Op    string `json:"op"`
		Path  string `json:"path"`
		Value any    `json:"value"`
	}
	if field.Decode(&ops) != nil {
		return "error"
	}
	for i, op := range ops {
		ops[i].Value = withoutNilSlices(op.Value)
		switch op.Op {
		case "add", "remove", "replace", "test":
		default:
			return "error"
		}
	}
	if len(ops) == 0 {
		return "[]"
	}
	return encode(ops)
}

// withoutNilSlices replaces nil slices by empty ones. CUE v0.4.3 decodes empty lists to nil slices,
// which the original engine then writes as null.
func withoutNilSlices(value any) any {
	switch v := value.(type) {
	case []any:
		list := make([]any, len(v))
		for i := range v {
			list[i] = withoutNilSlices(v[i])
		}
		return list
	case map[string]any:
		for name := range v {
			v[name] = withoutNilSlices(v[name])
		}
	}
	return value
}

func verdict(field cue.Value) string {
	fields := struct {
		Valid  bool   `json:"valid"`
		Reason string `json:"reason"`
	}{Valid: true}
	if field.Decode(&fields) != nil {
		return "error"
	}
	if fields.Valid {
		return "allowed"
	}
	return "denied: " + fields.Reason
}

func encode(value any) string {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if e.Encode(value) != nil {
		return "error"
	}
	return strings.TrimSpace(b.String())
}
