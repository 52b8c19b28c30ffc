// Light, dark, or what the system says.

import { computed, effect, signal } from "@preact/signals";

export type Choice = "system" | "light" | "dark";

const system = matchMedia("(prefers-color-scheme: dark)");
const systemDark = signal(system.matches);
system.addEventListener("change", (e) => (systemDark.value = e.matches));

function kept(): Choice {
  try {
    const value = localStorage.getItem("usher-theme");
    return value === "light" || value === "dark" ? value : "system";
  } catch {
    return "system";
  }
}

export const choice = signal<Choice>(kept());
export const dark = computed(() => (choice.value === "system" ? systemDark.value : choice.value === "dark"));

effect(() => {
  document.documentElement.dataset.theme = dark.value ? "dark" : "light";
});

export function choose(next: Choice): void {
  choice.value = next;
  try {
    localStorage.setItem("usher-theme", next);
  } catch {
    // The choice lasts as long as the page.
  }
}
