module ycsb-go

go 1.24

require styx v0.1.0
