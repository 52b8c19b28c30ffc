// Package credential is what an API server shows the webhooks that it calls: a client
// certificate, a token, or both, as the kubeconfigs say it that kube-apiserver reads.
package credential

import (
	"fmt"
	"path"

	clientcmdv1 "k8s.io/client-go/tools/clientcmd/api/v1"
	"sigs.k8s.io/yaml"
)

// A File is one to be written for an API server.
type File struct {
	Name    string
	Content []byte
}

// A Credential names files on the hosts of the API servers.
type Credential struct {
	CertFile, KeyFile string
	TokenFile         string
}

// Check returns an error if a certificate has no key, or a key no certificate.
func (c Credential) Check() error {
	if (c.CertFile == "") != (c.KeyFile == "") {
		return fmt.Errorf("client certificate %q and key %q: they come together", c.CertFile, c.KeyFile)
	}
	return nil
}

// IsEmpty reports whether nothing is shown.
func (c Credential) IsEmpty() bool { return c == Credential{} }

// User is the credential as the user of a kubeconfig. Names of files that do not begin with a
// slash are relative to dir.
func (c Credential) User(dir string) clientcmdv1.AuthInfo {
	return clientcmdv1.AuthInfo{
		ClientCertificate: Path(dir, c.CertFile), ClientKey: Path(dir, c.KeyFile), TokenFile: Path(dir, c.TokenFile),
	}
}

// Dir is the folder of the files on the hosts of the API servers: /etc/kubernetes/usher if dir is
// empty. Relative paths mean nothing to API servers.
func Dir(dir string) (string, error) {
	if dir == "" {
		return "/etc/kubernetes/usher", nil
	}
	if !path.IsAbs(dir) {
		return "", fmt.Errorf("folder %q: API servers need a path that begins with /", dir)
	}
	return dir, nil
}

// Path is where a file is. An empty name stays empty.
func Path(dir, name string) string {
	if name == "" || path.IsAbs(name) {
		return name
	}
	return path.Join(dir, name)
}

// Kubeconfig returns a kubeconfig as a file.
func Kubeconfig(name string, c clientcmdv1.Config) (File, error) {
	c.APIVersion, c.Kind = "v1", "Config"
	content, err := yaml.Marshal(c)
	if err != nil {
		return File{}, fmt.Errorf("encode kubeconfig: %w", err)
	}
	return File{Name: name, Content: content}, nil
}
