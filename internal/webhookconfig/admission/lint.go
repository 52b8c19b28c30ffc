package admission

import (
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	webhookutil "k8s.io/apiserver/pkg/util/webhook"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	"github.com/usher-dev/usher/internal/rule"
)

const (
	configurationKind = "AdmissionConfiguration"
	webhookKind       = "WebhookAdmissionConfiguration"
)

// An admissionConfiguration is the relevant part of that of kube-apiserver.
type admissionConfiguration struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Plugins    []struct {
		Name          string                `json:"name"`
		Path          string                `json:"path"`
		Configuration *webhookConfiguration `json:"configuration"`
	} `json:"plugins"`
}

type webhookConfiguration struct {
	APIVersion     string `json:"apiVersion"`
	Kind           string `json:"kind"`
	KubeConfigFile string `json:"kubeConfigFile"`
}

// Lint checks the AdmissionConfiguration in a file: for what stops an API server, and for what
// makes webhooks reject it. Servers are the webhooks that need credentials, in the forms of
// [Options]. Files that do not exist on this machine are not checked.
func Lint(file string, servers []string) ([]rule.Problem, error) {
	content, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("read configuration: %w", err)
	}
	k := &check{folder: filepath.Dir(file), servers: servers}
	if len(servers) == 0 {
		k.servers = []string{DefaultServer}
	}
	for _, server := range k.servers {
		if _, err := User(server); err != nil {
			return nil, err
		}
	}
	var c admissionConfiguration
	if err := yaml.Unmarshal(content, &c); err != nil {
		return []rule.Problem{{Severity: rule.Error, What: err.Error(), Do: "API servers refuse to start with it"}}, nil //nolint:nilerr // The problem says it.
	}
	k.configuration(&c)
	rule.SortProblems(k.problems)
	return k.problems, nil
}

// check gathers problems.
type check struct {
	folder   string
	servers  []string
	problems []rule.Problem
}

func (k *check) add(severity rule.Severity, field, what, do string) {
	k.problems = append(k.problems, rule.Problem{Severity: severity, Field: field, What: what, Do: do})
}

func (k *check) configuration(c *admissionConfiguration) {
	if c.Kind != configurationKind {
		k.add(rule.Error, "kind", fmt.Sprintf("%q is not %s", c.Kind, configurationKind), "write kind: "+configurationKind)
	}
	if group, version, _ := strings.Cut(c.APIVersion, "/"); group != "apiserver.config.k8s.io" {
		k.add(rule.Error, "apiVersion", fmt.Sprintf("unknown version %q", c.APIVersion), "write apiVersion: "+configurationVersion)
	} else if version != "v1" {
		k.add(rule.Warning, "apiVersion", version+" is an old version", "write apiVersion: "+configurationVersion)
	}
	read := map[string]bool{}
	for _, name := range plugins() {
		at := -1
		for i := range c.Plugins {
			if c.Plugins[i].Name == name {
				at = i
			}
		}
		if at < 0 {
			k.add(rule.Error, "plugins", name+" is missing: API servers show nothing to its webhooks", "add it: usher admission config writes both")
			continue
		}
		field, w := fmt.Sprintf("plugins[%d].configuration", at), c.Plugins[at].Configuration
		if w == nil {
			field, w = fmt.Sprintf("plugins[%d].path", at), k.atPath(at, c.Plugins[at].Path)
		}
		if w == nil || !k.webhooks(field, w) || read[w.KubeConfigFile] {
			continue
		}
		read[w.KubeConfigFile] = true
		k.kubeconfig(field+".kubeConfigFile", w.KubeConfigFile)
	}
}

// atPath is the configuration of a plugin that is in a file of its own; nil if it is not known.
func (k *check) atPath(i int, name string) *webhookConfiguration {
	field := fmt.Sprintf("plugins[%d].path", i)
	if name == "" {
		k.add(rule.Error, fmt.Sprintf("plugins[%d].configuration", i), "missing: API servers show nothing to webhooks", "write one with kubeConfigFile")
		return nil
	}
	if !filepath.IsAbs(name) {
		name = filepath.Join(k.folder, name)
	}
	content, err := os.ReadFile(name)
	if err != nil {
		return nil
	}
	w := &webhookConfiguration{}
	if err := yaml.Unmarshal(content, w); err != nil {
		k.add(rule.Error, field, name+": "+err.Error(), "API servers refuse to start with it")
		return nil
	}
	return w
}

// webhooks reports whether there is a kubeconfig to look at.
func (k *check) webhooks(field string, w *webhookConfiguration) bool {
	if w.Kind != webhookKind && w.Kind != "WebhookAdmission" {
		k.add(rule.Error, field+".kind", fmt.Sprintf("%q is not %s", w.Kind, webhookKind), "write kind: "+webhookKind)
	}
	if group, _, _ := strings.Cut(w.APIVersion, "/"); group != "apiserver.config.k8s.io" {
		k.add(rule.Error, field+".apiVersion", fmt.Sprintf("unknown version %q", w.APIVersion), "write apiVersion: "+configurationVersion)
	}
	switch name := w.KubeConfigFile; {
	case name == "":
		k.add(rule.Error, field+".kubeConfigFile", "missing: API servers show nothing to webhooks", "name a kubeconfig: usher admission config writes one")
		return false
	case !path.IsAbs(name):
		k.add(rule.Error, field+".kubeConfigFile", name+" does not begin with /", "API servers refuse to start with it")
		return false
	}
	return true
}

// kubeconfig uses the code of API servers to find the credentials that they would send.
func (k *check) kubeconfig(field, name string) {
	if _, err := os.Stat(name); err != nil {
		return
	}
	resolver, err := webhookutil.NewDefaultAuthenticationInfoResolver(name)
	if err != nil {
		k.add(rule.Error, field, err.Error(), "API servers refuse to start with it")
		return
	}
	for _, server := range k.servers {
		user, err := User(server)
		if err != nil {
			continue
		}
		if user == "*" {
			user = "any-other-webhook.example"
		}
		if !hasPort(user) {
			user += ":443"
		}
		shown, err := resolver.ClientConfigFor(strings.Replace(user, "*.", "any.", 1))
		k.shown(field, server, shown, err)
	}
	everybody, err := resolver.ClientConfigFor("any-other-webhook.example:443")
	if err == nil && everybody.BearerToken != "" {
		k.add(rule.Warning, field, "every webhook of the cluster gets the token, and can pass for the API server with it",
			"name the webhooks one by one, or use certificates")
	}
}

func hasPort(host string) bool {
	return strings.LastIndexByte(host, ':') > strings.LastIndexByte(host, ']')
}

func (k *check) shown(field, server string, shown *rest.Config, err error) {
	if err != nil {
		k.add(rule.Error, field, fmt.Sprintf("calls of %s fail: %v", server, err), "put the file there, or name another one")
		return
	}
	if shown.BearerToken == "" && shown.CertFile == "" && len(shown.CertData) == 0 && shown.ExecProvider == nil && shown.Username == "" {
		name, _ := User(server)
		k.add(rule.Error, field, "API servers show nothing to "+server, fmt.Sprintf("add a user with the name %q", name))
		return
	}
	for _, file := range slices.Compact([]string{shown.CertFile, shown.KeyFile}) {
		if _, err := os.Stat(file); file != "" && os.IsNotExist(err) {
			k.add(rule.Error, field, fmt.Sprintf("calls of %s fail: %v", server, &fs.PathError{Op: "open", Path: file, Err: fs.ErrNotExist}), "put the file there, or name another one")
		}
	}
}
