// Package timeline is what a replay of an incident has shown: for each way of
// handing out work, who claimed what and when, who was held up for how long,
// and when which alarm rang. It judges that against what is known of the
// incident, and shows it as a table, as text and as SVG. Nothing here runs
// anything: a replay is a value that internal/drill fills in.
//
// All times are those of the incident, counted from its beginning, whatever
// factor they were compressed by; Raw gives them as they were measured.
package timeline
