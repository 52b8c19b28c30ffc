package gatekeeper

// Nearest returns the policy of the library that means about what a template of Gatekeeper's library means which
// is in Rego alone; empty if there is none. The name proves nothing, so that nothing is converted by it.
func Nearest(template string) string { return nearest()[template] }

func nearest() map[string]string {
	return map[string]string{
		"k8sallowedrepos":                         "allowed-registries",
		"k8sallowedreposv2":                       "allowed-registries",
		"k8sblockloadbalancer":                    "service-types",
		"k8sblocknodeport":                        "service-types",
		"k8sblockwildcardingress":                 "ingress-catch-all",
		"k8scontainerephemeralstoragelimit":       "resource-requests",
		"k8scontainerlimits":                      "container-sizes",
		"k8scontainerratios":                      "limit-ratios",
		"k8scontainerrequests":                    "container-sizes",
		"k8sdisallowanonymous":                    "anonymous-bindings",
		"k8sdisallowedtags":                       "image-tags",
		"k8sexternalips":                          "external-ips",
		"k8shorizontalpodautoscaler":              "autoscalers",
		"k8shttpsonly":                            "ingress-tls",
		"k8simagedigests":                         "image-digests",
		"k8spoddisruptionbudget":                  "disruption-budgets",
		"k8spspallowedusers":                      "user-ids",
		"k8spspallowprivilegeescalationcontainer": "pod-security-restricted-allow-privilege-escalation",
		"k8spspapparmor":                          "pod-security-baseline-app-armor-profile",
		"k8spspautomountserviceaccounttokenpod":   "automount",
		"k8spspcapabilities":                      "pod-security-baseline-capabilities",
		"k8spspflexvolumes":                       "pod-security-restricted-volume-types",
		"k8spspforbiddensysctls":                  "pod-security-baseline-sysctls",
		"k8spsphostfilesystem":                    "pod-security-baseline-host-path-volumes",
		"k8spsphostnamespace":                     "pod-security-baseline-host-namespaces",
		"k8spsphostnetworkingports":               "pod-security-baseline-host-ports",
		"k8spspprivilegedcontainer":               "pod-security-baseline-privileged",
		"k8spspprocmount":                         "pod-security-baseline-proc-mount",
		"k8spspreadonlyrootfilesystem":            "read-only-root",
		"k8spspseccomp":                           "pod-security-baseline-seccomp-profile",
		"k8spspselinuxv2":                         "pod-security-baseline-se-linux-options",
		"k8spspvolumetypes":                       "pod-security-restricted-volume-types",
		"k8sreplicalimits":                        "minimum-replicas",
		"k8srequiredannotations":                  "required-annotations",
		"k8srequiredlabels":                       "required-labels",
		"k8srequiredprobes":                       "probes",
		"k8srequiredresources":                    "resource-requests",
		"k8sstorageclass":                         "storage-classes",
		"k8suniqueingresshost":                    "ingress-hosts-unique",
		"k8suniqueserviceselector":                "service-selectors-unique",
		"noupdateserviceaccount":                  "service-account-changes",
		"verifydeprecatedapi":                     "removed-apis",
	}
}
