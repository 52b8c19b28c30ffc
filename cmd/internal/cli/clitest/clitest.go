// Package clitest holds what every command of every binary has in common: flags that have one
// name, one shorthand, one type and one meaning wherever they occur, examples, completion of
// enumerated values, and flags that never go away.
package clitest

import (
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// A meaning is what a flag is wherever it occurs.
type meaning struct {
	shorthand string
	types     []string
	// usage is how the help begins. A second one is a second meaning, and needs a reason.
	usage []string
}

func one(shorthand, kind, usage string) meaning {
	return meaning{shorthand, []string{kind}, []string{usage}}
}

// shared are the flags that several commands have. A name that is used a second time belongs here.
func shared() map[string]meaning {
	return map[string]meaning{
		"allow-local-facts": one("", "bool", "let policies call HTTP services on loopback and link-local addresses"),
		"as":                one("", "string", "user who makes the request"),
		"as-extra":          one("", "stringArray", "extra attribute of the user"),
		"as-group":          one("", "stringArray", "group of the user"),
		"as-uid":            one("", "string", "UID of the user"),
		"ask-http":          one("", "bool", "let rules call HTTP services for each object"),
		"bind-address":      one("", "string", "IP address to listen on"),
		"all-namespaces":    one("A", "bool", "ask about a request for all namespaces"),
		"ca-file":           one("", "string", "PEM file with the CA certificates to trust"),
		"client-cert-file":  one("", "string", "PEM file with the client certificate to present"),
		"client-key-file":   one("", "string", "PEM file with the private key of --client-cert-file"),
		"color":             one("", "when", "when to use colors"),
		"context":           one("", "string", "context of the kubeconfig (default: the current one)"),
		"dir":               one("", "string", "folder of the files on the hosts of the API servers"),
		// Commands that write do it, those that are about a request are told that it is one.
		"dry-run":                   {"", []string{"bool"}, []string{"mark the request as a dry run", "ask whether the change would be allowed"}},
		"explain":                   one("", "bool", ""),
		"facts":                     one("", "stringArray", "file or folder with objects that exist in the cluster (repeatable)"),
		"field-selector":            one("", "string", "field selector of the request"),
		"file":                      one("f", "stringArray", "file or folder with "),
		"http-facts":                one("", "stringSlice", "hosts that cluster policies may ask for facts"),
		"kube-version":              one("", "string", "version of Kubernetes whose functions the expressions of admission policies may use"),
		"from-cluster":              one("", "bool", "read the cluster of the kubeconfig; nothing is written to it"),
		"infrastructure-namespaces": one("", "stringSlice", "namespaces of the pod network, storage drivers, DNS and other add-ons of the cluster"),
		"kubeconfig":                one("", "string", "kubeconfig of the cluster"),
		"name":                      one("", "string", "name of the request"),
		// kubectl and helm call all of them so, and no command has two.
		"namespace":             {"n", []string{"string"}, []string{"namespace of the request", "namespace of the policies", "namespace of Usher", "namespace to audit"}},
		"namespaced-http-facts": one("", "stringSlice", "hosts that policies of a namespace may ask for facts"),
		"namespaced-kinds":      one("", "stringSlice", "kinds that policies of a namespace may act on"),
		"namespaced-references": one("", "stringSlice", "kinds whose objects policies of a namespace may read outside of it"),
		"old":                   one("", "stringArray", "file or folder with the objects before an UPDATE (repeatable)"),
		"operation":             one("", "string", "CREATE, UPDATE, DELETE or CONNECT"),
		"out":                   one("", "string", "folder to write the files to"),
		"output":                {"o", []string{"format"}, []string{"output format: text, json, yaml", "output format: line, json"}},
		"policy":                {"", []string{"string", "stringArray"}, []string{""}}, // one to show, or several to exempt from
		"policy-timeout":        one("", "duration", "how long a policy may take to compile, to be tried, or to decide a request"),
		"path-secret":           one("", "string", "Secret in --namespace with the keys of the URL paths"),
		"policies":              one("p", "stringArray", "file or folder with policies"),
		"port":                  one("", "int", "port to listen on; 0 selects a free port"),
		"proof-secret":          one("", "string", "Secret in --namespace with the keys of policy proofs"),
		"rbac":                  one("", "stringArray", "file or folder with roles and bindings (repeatable)"),
		"resource":              one("", "string", "resource of the request"),
		"selector":              one("l", "string", "label selector of the request"),
		// What is let pass otherwise.
		"strict":                     {"", []string{"bool"}, []string{"count warnings, and what was not tried, as errors", "with --prove, leave out policies that a test shows to be different"}},
		"stdin-name":                 one("", "string", "file that the standard input has, for places in the output"),
		"subresource":                one("", "string", "subresource of the request"),
		"timeout":                    one("", "duration", "timeout of "),
		"tls-cert-file":              one("", "string", "PEM file with the serving certificate and intermediate certificates"),
		"tls-private-key-file":       one("", "string", "PEM file with the private key of --tls-cert-file"),
		"url":                        one("", "string", "HTTP request to ask about in place of VERB and RESOURCE"),
		"v":                          one("v", "int", "log verbosity"), // as agnhost calls it
		"verbose":                    one("v", "bool", "print more"),
		"webhook-configuration-name": one("", "string", "name of the webhook configurations"),
		"webhook-namespace-selector": one("", "string", "label selector of the namespaces whose objects API servers send"),
	}
}

// ofServers are the flags of commands that talk to servers of Usher, or tell others to.
func ofServers() map[string]meaning {
	return map[string]meaning{
		// An AdmissionConfiguration names several, others are about one.
		"server": {"", []string{"string", "stringArray"}, []string{"URL of a running webhook", "URL of the server", "address of the webhook", "URL of the API of a replica"}},
		// A server accepts any of several, a client sends one.
		"token-file":      {"", []string{"string"}, []string{"file with bearer tokens", "file with the bearer token to send"}},
		"service-account": one("", "string", "send a token of this ServiceAccount"),
		"usher-namespace": one("", "string", "namespace of the pods of Usher"),
	}
}

// settings are the flags of commands about packs, exemptions, imports and results.
func settings() map[string]meaning {
	return map[string]meaning{
		"apply": one("", "bool", "apply the "),
		// What a command refuses to do otherwise.
		"force": {"", []string{"bool"}, []string{"with --out, overwrite files that exist", "promote a candidate although there are reasons against it"}}, "enforce": one("", "bool", "let policies deny where they did"),
		"report": one("", "format", "print the outcome for each policy, in place of the policies: text, json, yaml, markdown"),
		// What is left out is a part of a policy.
		"partial": {"", []string{"bool"}, []string{"with --to, leave out what cannot be expressed", "convert the parts of a policy that can be converted"}},
		"prove":   one("", "stringArray", "file or folder with tests"),
		// The results of an audit are a set of statuses.
		"fail-on": {"", []string{"results", "stringSlice"}, []string{"results that make the exit status 1", "differences that make the exit status 1"}},
		// Of an exemption it is what follows instead of a denial.
		"action":    {"", []string{"string"}, []string{"what follows instead of the denial", "what follows from a validation that fails"}},
		"packs":     one("", "stringArray", "folder with a pack.yaml, or with folders that have one: packs of your own; or one in a registry, oci://HOST/NAME@sha256:DIGEST (repeatable)"),
		"signed-by": one("", "string", "file that says whose signature packs in registries must have: a public key in PEM, or YAML with identity or identityRegexp, issuer and trustedRoot; usher-verify, beside usher or in the $PATH, verifies it"),
		"params":    one("", "stringArray", "value of a param in YAML"),
	}
}

// Commands returns every command that users see, of which root is the first.
func Commands(root *cobra.Command) []*cobra.Command {
	var all []*cobra.Command
	if !root.Hidden {
		all = append(all, root)
	}
	for _, child := range root.Commands() {
		if !child.Hidden && child.Name() != "help" {
			all = append(all, Commands(child)...)
		}
	}
	return all
}

// visible calls visit with each flag that the help of cmd shows.
func visible(cmd *cobra.Command, visit func(*pflag.Flag)) {
	cmd.LocalFlags().VisitAll(func(flag *pflag.Flag) {
		if !flag.Hidden && flag.Name != "help" {
			visit(flag)
		}
	})
}

// Consistent fails for what differs between the commands of a binary without need.
func Consistent(t *testing.T, root *cobra.Command) {
	t.Helper()
	table := shared()
	maps.Copy(table, ofServers())
	maps.Copy(table, settings())
	users := map[string][]string{}
	shorthands := map[string]string{}
	for _, cmd := range Commands(root) {
		path := cmd.CommandPath()
		if cmd.Short == "" || strings.HasSuffix(cmd.Short, ".") {
			t.Errorf("%s: Short is %q: expected a phrase without a period", path, cmd.Short)
		}
		if !strings.Contains(cmd.Example, path) {
			t.Errorf("%s has no Example with its own name", path)
		}
		visible(cmd, func(flag *pflag.Flag) {
			users[flag.Name] = append(users[flag.Name], path)
			known, ok := table[flag.Name]
			if ok {
				known.check(t, path, flag)
			}
			if flag.Shorthand != "" {
				if name := shorthands[flag.Shorthand]; name != "" && name != flag.Name {
					t.Errorf("%s: -%s is --%s, and --%s elsewhere", path, flag.Shorthand, flag.Name, name)
				}
				shorthands[flag.Shorthand] = flag.Name
			}
			checkValues(t, cmd, flag)
		})
	}
	for name, paths := range users {
		if _, ok := table[name]; !ok && len(paths) > 1 {
			t.Errorf("--%s is a flag of %s: add its meaning to clitest, or give it another name where it means something else", name, strings.Join(paths, ", "))
		}
	}
}

func (m meaning) check(t *testing.T, path string, flag *pflag.Flag) {
	t.Helper()
	if flag.Shorthand != m.shorthand {
		t.Errorf("%s: the shorthand of --%s is %q, expected %q", path, flag.Name, flag.Shorthand, m.shorthand)
	}
	if !slices.Contains(m.types, flag.Value.Type()) {
		t.Errorf("%s: --%s is a %s, expected %s", path, flag.Name, flag.Value.Type(), strings.Join(m.types, " or "))
	}
	if !slices.ContainsFunc(m.usage, func(usage string) bool { return strings.HasPrefix(flag.Usage, usage) }) {
		t.Errorf("%s: the help of --%s is %q, expected it to begin with %q", path, flag.Name, flag.Usage, m.usage)
	}
}

// enumerated matches a usage that ends in, or begins with, a choice: "log format: text or json".
var enumerated = regexp.MustCompile(`(^|[:;] )([A-Za-z0-9.]+, )*[A-Za-z0-9.]+ or [A-Za-z0-9.]+( \(|;|$)`)

// checkValues needs completion of enumerated values, and usage that is a phrase.
func checkValues(t *testing.T, cmd *cobra.Command, flag *pflag.Flag) {
	t.Helper()
	path := cmd.CommandPath()
	complete, offered := cmd.GetFlagCompletionFunc(flag.Name)
	if enumerated.MatchString(flag.Usage) && !offered {
		t.Errorf("%s: --%s has a choice of values (%s), which shells do not complete: call cli.Offer", path, flag.Name, flag.Usage)
	}
	if offered {
		values, _ := complete(cmd, nil, "")
		for _, value := range values {
			// An example names some values, and does not limit them.
			if !strings.Contains(flag.Usage, "such as") && !strings.Contains(flag.Usage, value) {
				t.Errorf("%s: --%s offers %s, of which its help does not tell: %s", path, flag.Name, value, flag.Usage)
			}
		}
	}
	if flag.Usage == "" || strings.HasSuffix(flag.Usage, ".") {
		t.Errorf("%s: the help of --%s is %q: expected a phrase without a period", path, flag.Name, flag.Usage)
	}
	if repeatable := strings.HasPrefix(flag.Value.Type(), "stringArray"); repeatable != strings.Contains(flag.Usage, "(repeatable)") && !strings.HasSuffix(flag.Value.Type(), "Slice") {
		t.Errorf("%s: --%s is a %s, and its help says otherwise: %s", path, flag.Name, flag.Value.Type(), flag.Usage)
	}
}

// OnlyGrow compares the flags of all commands with those that users have seen, in a file: none
// is removed, renamed, or given another type or shorthand. With $RECORD
// new flags are added to the file.
func OnlyGrow(t *testing.T, root *cobra.Command, file string) {
	t.Helper()
	now := map[string]string{}
	for _, cmd := range Commands(root) {
		cmd.LocalFlags().VisitAll(func(flag *pflag.Flag) {
			now[cmd.CommandPath()+" --"+flag.Name] = strings.TrimSpace(flag.Value.Type() + " " + flag.Shorthand)
		})
	}
	text, err := os.ReadFile(file)
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	seen := map[string]string{}
	for line := range strings.Lines(string(text)) {
		name, kind, ok := strings.Cut(strings.TrimSpace(line), ": ")
		if !ok || strings.HasPrefix(name, "#") {
			continue
		}
		seen[name] = kind
		if got, ok := now[name]; !ok {
			t.Errorf("%s is gone: command lines that were written for it would fail", name)
		} else if got != kind {
			t.Errorf("%s is %s and was %s: command lines that were written for it would fail", name, got, kind)
		}
	}
	if os.Getenv("RECORD") == "" {
		for name := range now {
			if _, ok := seen[name]; !ok {
				t.Errorf("%s is new: record it with RECORD=1 go test -run TestFlagsOnlyGrow", name)
			}
		}
		return
	}
	maps.Copy(seen, now)
	lines := []string{"# Flags that users have seen. Written by: RECORD=1 go test -run TestFlagsOnlyGrow"}
	for _, name := range slices.Sorted(maps.Keys(seen)) {
		lines = append(lines, name+": "+seen[name])
	}
	if err := os.WriteFile(file, []byte(strings.Join(lines, "\n")+"\n"), 0o644); err != nil {
		t.Fatal(err)
	}
}
