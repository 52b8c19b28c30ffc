package library

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"reflect"
	"regexp"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/usher-dev/usher/api/usher/v1alpha1"
)

// File is the name of the file that describes a pack.
const File = "pack.yaml"

// A description is the content of pack.yaml.
type description struct {
	metav1.TypeMeta `json:",inline"`

	Metadata struct {
		Name string `json:"name"`
	} `json:"metadata"`
	Title       string   `json:"title"`
	Description string   `json:"description"`
	Version     string   `json:"version"`
	Kubernetes  string   `json:"kubernetes"`
	Policies    []string `json:"policies"`

	Include []Inclusion `json:"include"`
}

var (
	names      = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`)
	versions   = regexp.MustCompile(`^[0-9]+\.[0-9]+\.[0-9]+$`)
	kubernetes = regexp.MustCompile(`^>=1\.[0-9]+$`)
	// params are the params that expressions read.
	params = regexp.MustCompile(`\bparams\.\??([a-zA-Z_][a-zA-Z0-9_]*)`)
)

// LoadPack reads one pack: a folder with pack.yaml, the policies that it lists, and their cases in
// cases. Errors begin with name, and are all that is wrong with the pack. Policies of other packs are
// added by [Join].
func LoadPack(fsys fs.FS, name string) (Pack, error) {
	content, err := fs.ReadFile(fsys, File)
	if err != nil {
		return Pack{}, fmt.Errorf("%s: read %s: %w", name, File, err)
	}
	var d description
	_, err = written(content)
	if err = errors.Join(yaml.UnmarshalStrict(content, &d), err); err != nil {
		return Pack{}, fmt.Errorf("%s/%s: %w", name, File, err)
	}
	errs := d.errors()
	pack := Pack{Name: d.Metadata.Name, Title: d.Title, Description: strings.TrimSpace(d.Description), Version: d.Version, Kubernetes: d.Kubernetes, Include: d.Include}
	listed := map[string]bool{}
	for _, file := range d.Policies {
		if listed[file] {
			errs = append(errs, fmt.Errorf("policies lists %s twice", file))
			continue
		}
		listed[file] = true
		policy, err := loadPolicy(fsys, &pack, file)
		errs = append(errs, err)
		pack.Policies = append(pack.Policies, policy)
	}
	errs = append(errs, unlisted(fsys, listed)...)
	for i, err := range errs {
		if err != nil {
			errs[i] = fmt.Errorf("%s: %w", path.Join(name, File), err)
		}
	}
	return pack, errors.Join(errs...)
}

// errors returns what is wrong with the fields of the description.
func (d *description) errors() []error {
	var errs []error
	for _, check := range []struct {
		ok   bool
		what string
	}{
		{d.APIVersion == v1alpha1.GroupVersion.String() && d.Kind == "PolicyPack", "expected apiVersion " + v1alpha1.GroupVersion.String() + " and kind PolicyPack"},
		{names.MatchString(d.Metadata.Name), "metadata.name: expected lower-case letters, digits and hyphens"},
		{d.Title != "", "title is missing"},
		{strings.TrimSpace(d.Description) != "", "description is missing: say what the pack is for"},
		{versions.MatchString(d.Version), "version: expected three numbers, such as \"1.0.0\""},
		{kubernetes.MatchString(d.Kubernetes), "kubernetes: expected the lowest version of clusters, such as \">=1.30\""},
		{len(d.Policies) > 0 || len(d.Include) > 0, "policies is empty: list the names of the files, without .yaml"},
	} {
		if !check.ok {
			errs = append(errs, errors.New(check.what))
		}
	}
	return errs
}

// unlisted returns an error for each file that no policy of the pack has.
func unlisted(fsys fs.FS, listed map[string]bool) []error {
	var errs []error
	for _, folder := range []string{".", "cases"} {
		// Policies whose cases are missing have errors of their own.
		entries, _ := fs.ReadDir(fsys, folder)
		for _, entry := range entries {
			stem, isYAML := strings.CutSuffix(entry.Name(), ".yaml")
			if isYAML && !listed[stem] && (folder != "." || entry.Name() != File) {
				errs = append(errs, fmt.Errorf("policies does not list %s, which has the file %s", stem, path.Join(folder, entry.Name())))
			}
		}
	}
	return errs
}

func loadPolicy(fsys fs.FS, pack *Pack, file string) (Policy, error) {
	p := Policy{File: file, Pack: pack.Name, Origin: pack.Name, Version: pack.Version}
	var err error
	if !names.MatchString(file) {
		return p, fmt.Errorf("policies: %q: expected the name of a file without .yaml: lower-case letters, digits and hyphens", file)
	}
	if p.Text, err = fs.ReadFile(fsys, file+".yaml"); err != nil {
		return p, fmt.Errorf("policies: %w", err)
	}
	if p.Cases, err = fs.ReadFile(fsys, path.Join("cases", file+".yaml")); err != nil {
		return p, fmt.Errorf("%s has no test cases: %w", file, err)
	}
	var object v1alpha1.ClusterObjectPolicy
	if err := yaml.UnmarshalStrict(p.Text, &object); err != nil {
		return p, fmt.Errorf("%s.yaml: %w", file, err)
	}
	policy, err := written(p.Text)
	if err == nil {
		err = checkFields(policy)
	}
	if err != nil {
		return p, fmt.Errorf("%s.yaml: %w", file, err)
	}
	p.Name, p.Spec = object.Name, object.Spec
	if object.APIVersion != v1alpha1.GroupVersion.String() || object.Kind != "ClusterObjectPolicy" {
		return p, fmt.Errorf("%s.yaml: expected one ClusterObjectPolicy of %s", file, v1alpha1.GroupVersion)
	}
	if p.Name != file && p.Name != pack.Name+"-"+file {
		return p, fmt.Errorf("%s.yaml: metadata.name: expected %s or %s-%s, not %q", file, file, pack.Name, file, p.Name)
	}
	if p.Params, err = defaults(&object.Spec); err != nil {
		return p, fmt.Errorf("%s.yaml: %w", file, err)
	}
	return p, p.checkParams()
}

// defaults returns the params that all bindings have with the same value. The others tell the
// bindings apart, and are not for users to set.
func defaults(spec *v1alpha1.ClusterObjectPolicySpec) (map[string]any, error) {
	var shared map[string]any
	for i := range spec.Bindings {
		var values map[string]any
		if spec.Bindings[i].Params != nil {
			if err := json.Unmarshal(spec.Bindings[i].Params.Raw, &values); err != nil {
				return nil, fmt.Errorf("spec.bindings[%d].params: %w", i, err)
			}
		}
		if i == 0 {
			shared = values
			continue
		}
		maps.DeleteFunc(shared, func(name string, value any) bool { return !reflect.DeepEqual(values[name], value) })
	}
	return shared, nil
}

// checkParams compares the params that expressions read with those that have defaults.
func (p *Policy) checkParams() error {
	spec := p.Spec.DeepCopy()
	spec.Bindings, spec.Description = nil, ""
	text, err := json.Marshal(spec)
	if err != nil {
		return fmt.Errorf("encode %s: %w", p.File, err)
	}
	read := map[string]bool{}
	for _, match := range params.FindAllSubmatch(text, -1) {
		read[string(match[1])] = true
	}
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(read)) {
		// With several bindings, those that differ are not among the params.
		if _, ok := p.Params[name]; !ok && len(p.Spec.Bindings) <= 1 {
			errs = append(errs, fmt.Errorf("%s.yaml: params.%s has no default in spec.bindings[0].params", p.File, name))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(p.Params)) {
		if !read[name] {
			errs = append(errs, fmt.Errorf("%s.yaml: spec.bindings[0].params.%s: no expression reads it", p.File, name))
		}
	}
	return errors.Join(errs...)
}
