// Package deploy holds no Go: its tests hold what is deployed beside gavel,
// alert rules and dashboards, to what a running arbiter shows, and units to what
// a running systemd does with them.
package deploy
