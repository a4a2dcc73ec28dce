// Package deploy holds no Go: its tests hold what is deployed beside gavel,
// alert rules and dashboards, to what a running arbiter shows.
package deploy
