// Package boundaries holds the test that asserts the architecture: who may
// import whom, and that the cores are pure.
package boundaries
