module styx

go 1.24
