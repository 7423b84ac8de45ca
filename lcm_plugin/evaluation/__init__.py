"""Measurements that anybody can repeat: `lcm eval` plays public data sets through the plugin's hooks and asks about them."""
