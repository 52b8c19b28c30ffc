// Package admission writes what API servers need to prove to admission webhooks who they are,
// and says what is wrong with what others have written: the AdmissionConfiguration of
// kube-apiserver, and the kubeconfig that it names.
//
// The users of that kubeconfig are called as the webhooks are reached. An API server takes the
// first that exists of: the host and port, that with its first labels replaced by *, the same
// without the port if it is 443, and *. See clientConfig in
// k8s.io/apiserver/pkg/util/webhook.
package admission

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"path"
	"slices"
	"strconv"
	"strings"

	clientcmdv1 "k8s.io/client-go/tools/clientcmd/api/v1"
	"sigs.k8s.io/yaml"

	"github.com/usher-dev/usher/internal/webhookconfig/credential"
)

// DefaultServer is the name of Usher in webhook configurations if it is installed as in
// docs/install.md.
const DefaultServer = "usher.usher-system.svc"

// Options say which webhooks an API server shows what. Only Client is needed.
type Options struct {
	// Servers are the webhooks: a Service as NAME.NAMESPACE.svc, a host, either with a port unless
	// it is 443; the URL of a webhook; *.DOMAIN for all below a domain; or * for all webhooks of
	// the cluster. None means [DefaultServer].
	Servers []string
	// Dir is where the kubeconfig is going to be on the hosts of the API servers;
	// /etc/kubernetes/usher if empty. The files of Client, unless they begin with a slash,
	// are relative to it.
	Dir    string
	Client credential.Credential
	// Base is an AdmissionConfiguration that the API servers have already, to which the
	// webhook plugins are added; nil means that there is none.
	Base []byte
}

// The names of the files.
const (
	ConfigurationFile = "admission.yaml"
	kubeconfigFile    = "admission.kubeconfig"
)

// configurationVersion is that of the written configuration.
const configurationVersion = "apiserver.config.k8s.io/v1"

// plugins are those that call webhooks.
func plugins() []string { return []string{"MutatingAdmissionWebhook", "ValidatingAdmissionWebhook"} }

// Generate returns the files for --admission-control-config-file, that first.
func Generate(o Options) ([]credential.File, error) {
	dir, err := credential.Dir(o.Dir)
	if err != nil {
		return nil, err
	}
	if err := o.Client.Check(); err != nil {
		return nil, err
	}
	if o.Client.IsEmpty() {
		return nil, errors.New("nothing to show: name a client certificate with its key, or a file with a token")
	}
	users, err := o.users(dir)
	if err != nil {
		return nil, err
	}
	kubeconfig, err := credential.Kubeconfig(kubeconfigFile, clientcmdv1.Config{
		AuthInfos: users,
		// API servers take them from the webhook configurations.
		Clusters: []clientcmdv1.NamedCluster{}, Contexts: []clientcmdv1.NamedContext{},
	})
	if err != nil {
		return nil, err
	}
	configuration, err := configuration(o.Base, credential.Path(dir, kubeconfigFile))
	if err != nil {
		return nil, err
	}
	return []credential.File{{Name: ConfigurationFile, Content: configuration}, kubeconfig}, nil
}

func (o Options) users(dir string) ([]clientcmdv1.NamedAuthInfo, error) {
	servers := o.Servers
	if len(servers) == 0 {
		servers = []string{DefaultServer}
	}
	var users []clientcmdv1.NamedAuthInfo
	var names []string
	for _, server := range servers {
		name, err := User(server)
		if err != nil {
			return nil, err
		}
		if !slices.Contains(names, name) {
			names = append(names, name)
			users = append(users, clientcmdv1.NamedAuthInfo{Name: name, AuthInfo: o.Client.User(dir)})
		}
	}
	return users, nil
}

// User returns the name that the user of a kubeconfig must have for an API server to be that
// user to a webhook. See [Options] for the forms of server.
func User(server string) (string, error) {
	fail := func(what string) error {
		return fmt.Errorf("server %q: %s; write NAME.NAMESPACE.svc, a host, either with a port unless it is 443, the URL of the webhook, or *", server, what)
	}
	if server == "*" {
		return server, nil
	}
	host := server
	if scheme, _, ok := strings.Cut(server, "://"); ok {
		u, err := url.Parse(server)
		if err != nil || u.Host == "" {
			return "", fail("not a URL")
		}
		if scheme != "https" {
			return "", fail("API servers call webhooks over https only")
		}
		host = u.Host
	}
	name, port := host, ""
	if strings.ContainsRune(host, ':') {
		var err error
		if name, port, err = net.SplitHostPort(host); err != nil {
			return "", fail("an IPv6 address needs brackets and a port: API servers do not find it otherwise")
		}
		if number, err := strconv.ParseUint(port, 10, 16); err != nil || number == 0 {
			return "", fail(fmt.Sprintf("%q is not a port", port))
		}
	}
	if rest, ok := strings.CutPrefix(name, "*."); ok {
		name = rest
	}
	if name == "" || strings.ContainsAny(name, "/* \t@?#") {
		return "", fail("not a host")
	}
	return host, nil
}

// configuration is an AdmissionConfiguration, base if there is one, whose plugins for webhooks read
// the kubeconfig.
func configuration(base []byte, kubeconfig string) ([]byte, error) {
	c := map[string]any{"apiVersion": configurationVersion, "kind": configurationKind}
	if base != nil {
		c = map[string]any{}
		if err := yaml.UnmarshalStrict(base, &c); err != nil {
			return nil, fmt.Errorf("read configuration: %w", err)
		}
		if kind := c["kind"]; kind != configurationKind {
			return nil, fmt.Errorf("read configuration: kind %v is not %s", kind, configurationKind)
		}
	}
	present, ok := c["plugins"].([]any)
	if c["plugins"] != nil && !ok {
		return nil, errors.New("read configuration: plugins is not a list")
	}
	for i, entry := range present {
		if err := keepable(entry, kubeconfig); err != nil {
			return nil, fmt.Errorf("read configuration: plugins[%d]: %w", i, err)
		}
	}
	present = slices.DeleteFunc(present, func(entry any) bool {
		name, _ := entry.(map[string]any)["name"].(string)
		return slices.Contains(plugins(), name)
	})
	for _, name := range plugins() {
		present = append(present, map[string]any{"name": name, "configuration": map[string]any{
			"apiVersion": configurationVersion, "kind": webhookKind, "kubeConfigFile": kubeconfig,
		}})
	}
	c["plugins"] = present
	content, err := yaml.Marshal(c)
	if err != nil {
		return nil, fmt.Errorf("encode %s: %w", configurationKind, err)
	}
	return content, nil
}

// keepable returns why a plugin of another configuration cannot be kept: its settings would be
// lost, or mean something else in another folder.
func keepable(entry any, kubeconfig string) error {
	plugin, ok := entry.(map[string]any)
	if !ok {
		return errors.New("not an object")
	}
	name, _ := plugin["name"].(string)
	file, _ := plugin["path"].(string)
	switch configured, _ := plugin["configuration"].(map[string]any); {
	case !slices.Contains(plugins(), name) && file != "" && !path.IsAbs(file):
		return fmt.Errorf("path %s of %s is relative to the folder of this file: write it absolute", file, name)
	case !slices.Contains(plugins(), name):
		return nil
	case file != "":
		return fmt.Errorf("%s has a configuration of its own in %s: add the users of the kubeconfig that is printed without it to the one that it names", name, file)
	case configured["kubeConfigFile"] != nil && configured["kubeConfigFile"] != kubeconfig:
		return fmt.Errorf("%s reads %v already: add the users of the kubeconfig that is printed without it to that one", name, configured["kubeConfigFile"])
	case configured["staticManifestsDir"] != nil:
		return fmt.Errorf("%s has a staticManifestsDir: add kubeConfigFile to it by hand", name)
	}
	return nil
}
