// Package kubeconfig writes kubeconfig files.
package kubeconfig

import (
	"encoding/json"
	"fmt"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"

	"github.com/usher-dev/usher/sandbox/internal/pki"
)

// Write writes a kubeconfig for one server and one user to path.
func Write(path, server string, ca []byte, client pki.Pair) error {
	const name = "usher-sandbox"
	config := api.NewConfig()
	config.Clusters[name] = &api.Cluster{Server: server, CertificateAuthorityData: ca}
	config.AuthInfos[name] = &api.AuthInfo{ClientCertificateData: client.Cert, ClientKeyData: client.Key}
	config.Contexts[name] = &api.Context{Cluster: name, AuthInfo: name, Namespace: "default"}
	config.CurrentContext = name
	if err := clientcmd.WriteToFile(*config, path); err != nil {
		return fmt.Errorf("write kubeconfig: %w", err)
	}
	return nil
}

// NameUsher adds to the kubeconfig at path where a server of Usher outside of the cluster serves its API, as commands of
// usher read it: its URL, and the file with the CA of its certificate.
func NameUsher(path, server, caFile string) error {
	config, err := clientcmd.LoadFromFile(path)
	if err != nil {
		return fmt.Errorf("read kubeconfig: %w", err)
	}
	extension, err := json.Marshal(map[string]string{"server": server, "certificate-authority": caFile})
	if err != nil {
		return fmt.Errorf("write kubeconfig: %w", err)
	}
	for _, cluster := range config.Clusters {
		cluster.Extensions = map[string]runtime.Object{"usher.dev": &runtime.Unknown{Raw: extension}}
	}
	if err := clientcmd.WriteToFile(*config, path); err != nil {
		return fmt.Errorf("write kubeconfig: %w", err)
	}
	return nil
}
