package apiserver

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/kubernetes/cmd/kube-apiserver/app/options"

	door "github.com/usher-dev/usher/door/apiserver"
	"github.com/usher-dev/usher/plugin"
)

// A Plugin configures the admission plugin Usher.
type Plugin struct {
	// Policies are files and folders with policies; without any, policies come from the API.
	Policies []string
}

// register registers the plugin with kube-apiserver, at its place in the order: enabled if p is not
// nil, so that --disable-admission-plugins can disable it, and otherwise disabled, so that
// --enable-admission-plugins can enable it. A configuration in the file of
// --admission-control-config-file takes precedence over p.
func (p *Plugin) register(opts *options.ServerRunOptions) {
	generic := opts.Admission.GenericAdmission
	door.Register(generic.Plugins, func(config io.Reader) (admission.Interface, error) {
		if config == nil && p != nil {
			var err error
			if config, err = p.configuration(); err != nil {
				return nil, err
			}
		}
		return plugin.New(config)
	})
	generic.RecommendedPluginOrder = plugin.Order(generic.RecommendedPluginOrder)
	if p == nil {
		generic.DefaultOffPlugins.Insert(plugin.Name)
	}
}

func (p *Plugin) configuration() (io.Reader, error) {
	text, err := json.Marshal(plugin.Configuration{
		TypeMeta: metav1.TypeMeta{APIVersion: plugin.APIVersion, Kind: plugin.Kind},
		Policies: p.Policies,
		// A sandbox has only addresses on this machine.
		AllowLocalFacts: true,
	})
	if err != nil {
		return nil, fmt.Errorf("configure admission plugin: %w", err)
	}
	return bytes.NewReader(text), nil
}
