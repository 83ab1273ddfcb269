"""The tables that tell failures apart, as data: by vendor code, by stable code, by anchored phrase."""
